#include "partita/train/module_offload_file.h"

#include "partita/base/file.h"
#include "partita/config/offload_file.h"

namespace partita {
using namespace internal;

Offload read_offload(const std::filesystem::path& file) {
  const OffloadKeys keys = read_offload_keys(read_file(file), file.string());
  return {.optimizer = keys.place.host, .disk = keys.place.disk, .disk_folder = keys.disk_folder};
}

}  // namespace partita
