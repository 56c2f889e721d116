#include "partita/interop/mapped_tensor.h"

#include "partita/interop/zip_archive.h"

namespace partita::internal {

void verify(const MappedTensor& tensor) {
  if (!tensor.storage || tensor.storage->checked) return;
  check_zip_crc(tensor.storage->bytes, tensor.storage->crc, tensor.storage->name, tensor.storage->file);
  tensor.storage->checked = true;
}

}  // namespace partita::internal
