// The tensors of a Hugging Face folder, in any of its file formats:
//   model.safetensors, or model.safetensors.index.json with its shards,
//   pytorch_model.bin, or pytorch_model.bin.index.json with its shards (torch_file.h: read without running anything).
// Uses the first of these that exists, as transformers does.
//
//   const HfFolder folder("meta-llama/Llama-3.2-1B");
//   const MappedTensor& tensor = folder.at("model.norm.weight");
//
// Files are memory-mapped: opening a folder reads only headers, and pages are loaded when a tensor's bytes are
// accessed. Files named by an index must be regular files in the same folder.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/file.h"
#include "partita/interop/mapped_tensor.h"

namespace partita::internal {

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
  [[nodiscard]] const std::map<std::string, MappedTensor, std::less<>>& tensors() const { return tensors_; }
  // nullptr: no such tensor.
  [[nodiscard]] const MappedTensor* find(std::string_view name) const;
  // Error: no such tensor.
  [[nodiscard]] const MappedTensor& at(std::string_view name) const;

 private:
  using Tensors = std::map<std::string, MappedTensor, std::less<>>;
  Tensors open(const std::filesystem::path& file);
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  Tensors tensors_;
};

}  // namespace partita::internal
