#include "partita/interop/hf_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/interop/torch_storages.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  if (std::ranges::find(shape, 0) != shape.end()) return strides;  // no elements, so the other sizes may be anything
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::span<const std::byte> range(const MappedFile& file, int64_t begin, int64_t end) {
  return file.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// Tensor -> file. Error: not an index.
std::map<std::string, std::string> read_index(const fs::path& path) {
  std::map<std::string, std::string> index;
  try {
    index = read_json(path).at("weight_map").get<std::map<std::string, std::string>>();
  } catch (const json::exception& error) {
    fail("{} is not an index of weights: {}", path.string(), error.what());
  }
  for (const auto& [tensor, file] : index)
    if (file.empty() || fs::path(file).filename() != file || file == "." || file == "..")
      fail("{}: '{}' is in '{}', which is outside the folder", path.string(), tensor, file);
  return index;
}

// The weights or their index; empty: neither is there.
fs::path first_file(const fs::path& folder, const HfFileNames& names) {
  std::error_code ignored;
  for (const std::string_view name : {names.safetensors, names.torch})
    for (const char* ending : {"", ".index.json"})
      if (fs::path file = folder / (std::string(name) + ending); fs::exists(file, ignored)) return file;
  return {};
}

}  // namespace

bool has_hf_weights(const fs::path& folder, const HfFileNames& names) { return !first_file(folder, names).empty(); }

HfFolder::HfFolder(fs::path path, const HfFileNames& names) : path_(std::move(path)) {
  if (const fs::path file = first_file(path_, names); file.extension() == ".json") {
    open_shards(file);
  } else if (!file.empty()) {
    tensors_ = open(file);
  } else {
    fail("{} holds no weights: expected {} or {}, or one of these with .index.json", path_.string(), names.safetensors,
         names.torch);
  }
}

HfFolder::Tensors HfFolder::open(const fs::path& path) {
  files_.emplace_back(path, MappedFile::Access::sequential);
  const MappedFile& file = files_.back();
  Tensors tensors;
  if (path.extension() == ".safetensors") {
    const SafetensorsHeader header = parse_safetensors(file.bytes(), path);
    for (const SafetensorsEntry& e : header.entries)
      tensors[e.name] = {e.type, e.shape, row_major_strides(e.shape),
                         range(file, header.data_begin + e.begin, header.data_begin + e.end), nullptr};
  } else {
    TorchStorages storages(file.bytes(), path);
    for (TorchTensor& t : parse_torch_file(file.bytes(), path)) {
      MappedTensor& tensor = tensors[t.name];
      tensor = storages.tensor(std::move(t));
    }
  }
  return tensors;
}

void HfFolder::open_shards(const fs::path& index_path) {
  const std::map<std::string, std::string> index = read_index(index_path);
  std::map<std::string, Tensors> shards;
  for (const auto& [name, file] : index) {
    if (!shards.contains(file)) {
      std::error_code ignored;
      if (!fs::exists(path_ / file, ignored))
        fail("{} lists {}, which is missing: the download is not complete, fetch the file again", index_path.string(),
             file);
      shards[file] = open(path_ / file);
    }
    const auto found = shards[file].find(name);
    if (found == shards[file].end())
      fail("{} says that '{}' is in {}, which does not hold it", index_path.string(), name, file);
    tensors_[name] = found->second;
  }
  // Tensors in a shard that the index does not list are included, not ignored.
  for (const auto& [file, tensors] : shards) tensors_.insert(tensors.begin(), tensors.end());
}

const MappedTensor* HfFolder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const MappedTensor& HfFolder::at(std::string_view name) const {
  const MappedTensor* tensor = find(name);
  if (!tensor) fail("{} holds no tensor '{}': it holds {} others", path_.string(), name, tensors_.size());
  return *tensor;
}

}  // namespace partita::internal
