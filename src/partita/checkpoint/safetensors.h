// The safetensors format (https://huggingface.co/docs/safetensors): named arrays in one memory-mapped file.
//
//   SafetensorsFile file("model.safetensors");
//   std::span<const std::byte> bytes = file.bytes(file.at("final_norm.weight"));
//
//   SafetensorsWriter out("model.safetensors", {{"final_norm.weight", ElementType::f32, {768}}});
//   out.write(bytes);                                    // the tensors' data in order, in chunks of any size
//   out.commit();                                        // without it no file appears
//
// A file is the length of the header (8 bytes, little-endian), the header (JSON:
// {"__metadata__": {"k": "v"}, NAME: {"dtype": "F32", "shape": [768], "data_offsets": [begin, end]}, ...}, padded with
// spaces) and the data, row-major and little-endian; offsets count from the first byte after the header.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/base/file.h"

namespace partita::internal {

// Element types of the format; Partita computes with only some of them.
enum class ElementType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

[[nodiscard]] int64_t size_of(ElementType);           // bytes per element
[[nodiscard]] std::string_view name_of(ElementType);  // "F32"
[[nodiscard]] ElementType element_type(DType);
[[nodiscard]] std::optional<ElementType> parse_element_type(std::string_view name);  // "F32"; empty: no such name

// A tensor in a file: its elements are bytes [begin, end) of the data.
struct SafetensorsEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // ignored by the writer, which computes the layout itself
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // ordered by data offset
  std::map<std::string, std::string> metadata;  // the file's own "__metadata__"
  int64_t data_begin = 0;                       // file offset of the data
};

// Parses and checks the header of a complete file in memory: the header's length, its JSON (unique names), dtypes, that
// each shape matches its offsets, and that the tensors fill the data without gaps or overlap. Errors name `path` and
// the tensor.
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::filesystem::path& path);

// The first bytes of a file that holds `entries` in order: length and header, padded so that the data starts at a
// multiple of 64. The file consists of this text and the data. Error: a duplicate name.
[[nodiscard]] std::string make_safetensors_header(std::span<const SafetensorsEntry> entries,
                                                  const std::map<std::string, std::string>& metadata = {});

// A file memory-mapped for reading.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path, MappedFile::Access = MappedFile::Access::sequential);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] std::span<const SafetensorsEntry> entries() const { return header_.entries; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // nullptr: no such tensor.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
  // Error: no such tensor.
  [[nodiscard]] const SafetensorsEntry& at(std::string_view name) const;
  // The elements' bytes, possibly unaligned in files of other writers: copy them before use as numbers.
  [[nodiscard]] std::span<const std::byte> bytes(const SafetensorsEntry&) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
};

// Writes a file sequentially, without holding the data in memory.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path path, std::span<const SafetensorsEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  // The next bytes of the data.
  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  // Makes the file durable under its name. Error: the number of bytes written does not match the header.
  void commit();

 private:
  std::filesystem::path path_;
  AtomicFile file_;
  int64_t expected_ = 0;
};

}  // namespace partita::internal
