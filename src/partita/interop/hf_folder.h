// The tensors of a Hugging Face folder, in any of its file formats:
//   model.safetensors, or model.safetensors.index.json with its shards,
//   pytorch_model.bin, or pytorch_model.bin.index.json with its shards (torch_file.h: read without running anything).
// Uses the first of these that exists, as transformers does.
//
//   const HfFolder folder("meta-llama/Llama-3.2-1B");
//   const HfTensor& tensor = folder.at("model.norm.weight");
//
// Files are memory-mapped: opening a folder reads only headers, and pages are loaded when a tensor's bytes are
// accessed. Files named by an index must be regular files in the same folder.
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

// A checksummed range of a file, verified when a tensor in it is first read (HfFolder::check).
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
  std::vector<int64_t> shape, strides;           // in elements, never negative
  std::span<const std::byte> bytes;              // from the first element through the last
  std::shared_ptr<HfStorage> storage = nullptr;  // nullptr: the format has no checksums (safetensors)
};

struct HfFileNames {
  std::string_view safetensors, torch;
};
inline constexpr HfFileNames kHfModelFiles{"model.safetensors", "pytorch_model.bin"};
inline constexpr HfFileNames kPeftFiles{"adapter_model.safetensors", "adapter_model.bin"};

// Whether the folder holds one of the files that HfFolder reads.
[[nodiscard]] bool has_hf_weights(const std::filesystem::path& folder, const HfFileNames& = kHfModelFiles);

class HfFolder {
 public:
  // Errors: none of the files exists; a damaged file or index; a shard, or a tensor in it, is missing although the
  // index lists it. Names the file and the tensor.
  explicit HfFolder(std::filesystem::path path, const HfFileNames& = kHfModelFiles);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::map<std::string, HfTensor, std::less<>>& tensors() const { return tensors_; }
  // nullptr: no such tensor.
  [[nodiscard]] const HfTensor* find(std::string_view name) const;
  // Error: no such tensor.
  [[nodiscard]] const HfTensor& at(std::string_view name) const;

  // Verifies the checksum of the tensor's storage, which reads all of it; only once for tensors that share a storage.
  // Error: damaged; names file and storage. Not thread-safe.
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
