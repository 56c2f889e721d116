#include "partita/interop/torch_storages.h"

#include <utility>

namespace partita::internal {

TorchStorages::TorchStorages(std::span<const std::byte> file, std::filesystem::path path)
    : file_(file), path_(std::move(path)) {}

MappedTensor TorchStorages::tensor(TorchTensor t) {
  const ZipEntry& in = t.storage;
  std::shared_ptr<MappedStorage>& storage = storages_[in.begin];
  if (!storage)
    storage = std::make_shared<MappedStorage>(MappedStorage{range(in.begin, in.end), in.crc, in.name, path_, false});
  return {t.type, std::move(t.shape), std::move(t.strides), range(t.begin, t.end), storage};
}

std::span<const std::byte> TorchStorages::range(int64_t begin, int64_t end) const {
  return file_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

}  // namespace partita::internal
