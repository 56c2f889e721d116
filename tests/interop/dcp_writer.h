// The metadata of torch.distributed.checkpoint built value by value, and small folders of it, for the tests of their
// readers: valid ones, and malicious ones.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/file.h"
#include "tests/interop/zip_writer.h"

namespace partita::internal::test {

inline constexpr std::string_view kDcpModule = "torch.distributed.checkpoint.metadata";

inline std::string dictionary(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += key + value;
  return out + "u";
}
// An object of a class with its attributes.
inline std::string object(std::string_view module, std::string_view what, const std::string& state) {
  return name(module, what) + ")\x81" + state + "b";
}
inline std::string size_of_tensor(const std::vector<int32_t>& sizes) {
  return name("torch", "Size") + integers(sizes) + "\x85R";
}

struct DcpPart {
  std::vector<int32_t> offsets = {0, 0}, sizes = {2, 3};
  std::string file = "__0_0.distcp";
  int32_t offset = 0, length = 0;
  bool stored = true;            // has an entry in storage_data
  std::string descriptors = "";  // of transformations, as a value; empty: none, as in older versions
};
struct DcpEntry {
  std::string name = "w", dtype = "float32";
  std::vector<int32_t> shape = {2, 3};
  std::vector<DcpPart> parts = {{}};
};

inline std::string properties(std::string_view dtype) {
  const std::string layout = name("torch.serialization", "_get_layout") + text("torch.strided") + "\x85R";
  const std::string format = name(kDcpModule, "_MEM_FORMAT_ENCODING") + "K" + std::string(1, '\0') + "\x85R";
  return object(kDcpModule, "TensorProperties", "(" + name("torch", dtype) + layout + "\x89" + format + "\x89t");
}

inline std::string dcp_tensor(const DcpEntry& entry) {
  std::string chunks = "](";
  for (const DcpPart& part : entry.parts)
    chunks += object(
        kDcpModule, "ChunkStorageMetadata",
        dictionary({{text("offsets"), size_of_tensor(part.offsets)}, {text("sizes"), size_of_tensor(part.sizes)}}));
  return object(kDcpModule, "TensorStorageMetadata",
                dictionary({{text("properties"), properties(entry.dtype)},
                            {text("size"), size_of_tensor(entry.shape)},
                            {text("chunks"), chunks + "e"}}));
}

inline std::string dcp_index(const std::string& name, const std::vector<int32_t>* offsets) {
  std::vector<std::pair<std::string, std::string>> fields = {{text("fqn"), text(name)}, {text("index"), "N"}};
  if (offsets) fields.emplace_back(text("offset"), size_of_tensor(*offsets));
  return object(kDcpModule, "MetadataIndex", dictionary(fields));
}

inline std::string dcp_place(const DcpPart& part) {
  std::vector<std::pair<std::string, std::string>> fields = {{text("relative_path"), text(part.file)},
                                                             {text("offset"), integer(part.offset)},
                                                             {text("length"), integer(part.length)}};
  if (!part.descriptors.empty()) fields.emplace_back(text("transform_descriptors"), part.descriptors);
  return object("torch.distributed.checkpoint.filesystem", "_StorageInfo", dictionary(fields));
}

// `objects`: names of entries that are no tensors; they are at the start of __0_0.distcp. `more`: attributes.
inline std::string dcp_metadata(const std::vector<DcpEntry>& entries, const std::vector<std::string>& objects = {},
                                std::vector<std::pair<std::string, std::string>> more = {}) {
  std::vector<std::pair<std::string, std::string>> tensors, places;
  for (const DcpEntry& entry : entries) {
    tensors.emplace_back(text(entry.name), dcp_tensor(entry));
    for (const DcpPart& part : entry.parts)
      if (part.stored) places.emplace_back(dcp_index(entry.name, &part.offsets), dcp_place(part));
  }
  for (const std::string& name : objects) {
    tensors.emplace_back(text(name), test::name(kDcpModule, "BytesStorageMetadata") + ")\x81");
    places.emplace_back(dcp_index(name, nullptr), dcp_place({}));
  }
  more.insert(more.begin(), {{text("state_dict_metadata"), dictionary(tensors)},
                             {text("storage_data"), dictionary(places)},
                             {text("planner_data"), "N"}});
  return "\x80\x02" + object(kDcpModule, "Metadata", dictionary(more)) + ".";
}

// The tensor that torch.save writes of six fp32 numbers [2, 3], as one part of a .distcp file.
inline std::string saved_tensor(const std::string& elements, const PickleTensor& tensor, uint32_t crc = 0) {
  return torch_file_of("\x80\x02" + test::tensor(tensor) + ".", {{"0", elements, crc}});
}

}  // namespace partita::internal::test
