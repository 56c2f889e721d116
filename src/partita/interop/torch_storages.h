// The tensors of a file of torch.save in memory, with the checksums of their storages.
//
//   TorchStorages storages(file.bytes(), file.path());
//   for (TorchTensor& t : parse_torch_file(file.bytes(), file.path())) MappedTensor m = storages.tensor(std::move(t));
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "partita/interop/mapped_tensor.h"
#include "partita/interop/torch_file.h"

namespace partita::internal {

class TorchStorages {
 public:
  // `file` must outlive the tensors.
  TorchStorages(std::span<const std::byte> file, std::filesystem::path path);

  // Tensors that share a storage share the check of its checksum.
  [[nodiscard]] MappedTensor tensor(TorchTensor);

 private:
  [[nodiscard]] std::span<const std::byte> range(int64_t begin, int64_t end) const;

  std::span<const std::byte> file_;
  std::filesystem::path path_;
  std::map<int64_t, std::shared_ptr<MappedStorage>> storages_;  // keyed by offset
};

}  // namespace partita::internal
