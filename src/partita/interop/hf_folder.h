// The tensors of a Hugging Face folder, whatever files they lie in:
//   model.safetensors, or model.safetensors.index.json with its shards,
//   pytorch_model.bin, or pytorch_model.bin.index.json with its shards (torch_file.h: read without running anything).
// The first of these that is there is taken, as transformers does.
//
//   const HfFolder folder("meta-llama/Llama-3.2-1B");
//   const HfTensor& tensor = folder.at("model.norm.weight");
//
// Files are mapped: opening a folder reads headers only, and pages come in when a tensor's bytes are touched. What an
// index names must be a regular file in the same folder.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/file.h"
#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

// What a file has a checksum of, which is compared when a tensor in it is first read (HfFolder::check).
struct HfStorage {
  std::span<const std::byte> bytes;
  uint32_t crc = 0;
  std::string name;
  std::filesystem::path file;
  bool checked = false;
};

// Element [i, j] is element i strides[0] + j strides[1] of `bytes`, which need not be aligned.
struct HfTensor {
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape, strides;           // in elements, not negative
  std::span<const std::byte> bytes;              // from the first element to the last
  std::shared_ptr<HfStorage> storage = nullptr;  // nullptr: the format has no checksums (safetensors)
};

struct HfFileNames {
  std::string_view safetensors, torch;
};
inline constexpr HfFileNames kHfModelFiles{"model.safetensors", "pytorch_model.bin"};
inline constexpr HfFileNames kPeftFiles{"adapter_model.safetensors", "adapter_model.bin"};

class HfFolder {
 public:
  // Errors: none of the files is there; a damaged file or index; a shard or a tensor in it that the index promises and
  // that is missing. Names the file and the tensor.
  explicit HfFolder(std::filesystem::path path, const HfFileNames& = kHfModelFiles);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::map<std::string, HfTensor, std::less<>>& tensors() const { return tensors_; }
  // nullptr: no such tensor.
  [[nodiscard]] const HfTensor* find(std::string_view name) const;
  // Error: no such tensor.
  [[nodiscard]] const HfTensor& at(std::string_view name) const;

  // Compares the checksum of what the tensor is stored in, once for all tensors that share it, and so reads that whole.
  // Error: damaged; names file and storage. Not for several threads at once.
  static void check(const HfTensor&);

 private:
  using Tensors = std::map<std::string, HfTensor, std::less<>>;
  Tensors open(const std::filesystem::path& file);
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  Tensors tensors_;
};

}  // namespace partita::internal
