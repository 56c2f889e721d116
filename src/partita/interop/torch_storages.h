// The tensors of a file of torch.save in memory, with the checksums of their storages.
//
//   TorchStorages storages(file.bytes(), file.path());
//   for (TorchTensor& t : parse_torch_file(file.bytes(), file.path())) HfTensor tensor = storages.tensor(std::move(t));
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "partita/interop/hf_folder.h"
#include "partita/interop/torch_file.h"

namespace partita::internal {

class TorchStorages {
 public:
  // `file` must outlive the tensors.
  TorchStorages(std::span<const std::byte> file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}

  // Tensors that share a storage share the check of its checksum.
  HfTensor tensor(TorchTensor t) {
    const ZipEntry& in = t.storage;
    std::shared_ptr<HfStorage>& storage = storages_[in.begin];
    if (!storage)
      storage = std::make_shared<HfStorage>(HfStorage{range(in.begin, in.end), in.crc, in.name, path_, false});
    return {t.type, std::move(t.shape), std::move(t.strides), range(t.begin, t.end), storage};
  }

 private:
  [[nodiscard]] std::span<const std::byte> range(int64_t begin, int64_t end) const {
    return file_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  std::span<const std::byte> file_;
  std::filesystem::path path_;
  std::map<int64_t, std::shared_ptr<HfStorage>> storages_;  // keyed by offset
};

}  // namespace partita::internal
