#include "partita/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/foreign_format.h"
#include "partita/base/json.h"
#include "partita/checkpoint/damage.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian and is read in place");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kAlignment = 64;                // of the first data byte: a cache line
constexpr uint64_t kLongestHeader = 100'000'000;  // same limit as the reference implementation

struct TypeRow {
  ElementType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array kTypes = {TypeRow{ElementType::f64, "F64", 8},         TypeRow{ElementType::f32, "F32", 4},
                               TypeRow{ElementType::f16, "F16", 2},         TypeRow{ElementType::bf16, "BF16", 2},
                               TypeRow{ElementType::f8_e4m3, "F8_E4M3", 1}, TypeRow{ElementType::f8_e5m2, "F8_E5M2", 1},
                               TypeRow{ElementType::i64, "I64", 8},         TypeRow{ElementType::i32, "I32", 4},
                               TypeRow{ElementType::i16, "I16", 2},         TypeRow{ElementType::i8, "I8", 1},
                               TypeRow{ElementType::u64, "U64", 8},         TypeRow{ElementType::u32, "U32", 4},
                               TypeRow{ElementType::u16, "U16", 2},         TypeRow{ElementType::u8, "U8", 1},
                               TypeRow{ElementType::boolean, "BOOL", 1}};

const TypeRow& row(ElementType type) {
  const auto found = std::ranges::find(kTypes, type, &TypeRow::type);
  PARTITA_CHECK(found != kTypes.end(), "element type {}", static_cast<int>(type));
  return *found;
}

// Bytes of a tensor; negative if they do not fit 63 bits or a size is negative.
int64_t bytes_of(ElementType type, std::span<const int64_t> shape) {
  int64_t bytes = size_of(type);
  // A zero size makes the product zero, however large the others are.
  if (std::ranges::find(shape, 0) != shape.end()) bytes = 0;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  return bytes;
}

// Error messages with a common prefix for one file.
class Parser {
 public:
  Parser(std::span<const std::byte> file, const fs::path& path) : file_(file), path_(path) {}

  SafetensorsHeader parse() const {
    const std::string_view text = header_text();
    SafetensorsHeader header;
    header.data_begin = kLengthBytes + std::ssize(text);
    const json root = parse_header(text);
    for (const auto& [name, value] : root.items()) {
      if (name == "__metadata__") {
        header.metadata = parse_metadata(value);
      } else {
        header.entries.push_back(parse_entry(name, value));
      }
    }
    std::ranges::sort(header.entries, {}, [](const auto& e) { return std::tie(e.begin, e.end, e.name); });
    check_filled(header.entries, std::ssize(file_) - header.data_begin);
    return header;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    damaged("{} is not a sound safetensors file: {}: fetch or write it again", path_.string(),
            fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view header_text() const {
    refuse_lfs_pointer({reinterpret_cast<const char*>(file_.data()), file_.size()}, path_.string(),
                       "a safetensors file");
    if (std::ssize(file_) < kLengthBytes)
      refuse("it holds {} bytes, a header's length takes {}", file_.size(), kLengthBytes);
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), sizeof length);
    if (length > kLongestHeader) refuse("its header would be {} bytes long, {} are allowed", length, kLongestHeader);
    if (length > file_.size() - kLengthBytes)
      refuse("its header would be {} bytes long, but only {} follow", length, file_.size() - kLengthBytes);
    return {reinterpret_cast<const char*>(file_.data()) + kLengthBytes, static_cast<size_t>(length)};
  }

  json parse_header(std::string_view text) const {
    if (text.empty() || text.front() != '{') refuse("its header does not begin with '{{'");
    try {
      return parse_json(text, "its header");
    } catch (const Error& error) {
      refuse("{}", error.what());
    }
  }

  std::map<std::string, std::string> parse_metadata(const json& value) const {
    std::map<std::string, std::string> metadata;
    if (!value.is_object()) refuse("__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) refuse("__metadata__ '{}' is not a string", key);
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  SafetensorsEntry parse_entry(const std::string& name, const json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets"))
      refuse("tensor '{}' does not have exactly dtype, shape and data_offsets", name);
    SafetensorsEntry entry{name, parse_type(name, value["dtype"]), parse_integers(name, "shape", value["shape"])};
    const std::vector<int64_t> offsets = parse_integers(name, "data_offsets", value["data_offsets"]);
    if (offsets.size() != 2) refuse("tensor '{}' has {} data_offsets instead of 2", name, offsets.size());
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const int64_t bytes = bytes_of(entry.type, entry.shape);
    if (bytes < 0) refuse("tensor '{}' has an impossible shape {}", name, value["shape"].dump());
    if (entry.begin > entry.end || entry.end - entry.begin != bytes)
      refuse("tensor '{}' ({} {}) takes {} bytes, but its data_offsets are [{}, {}]", name, name_of(entry.type),
             value["shape"].dump(), bytes, entry.begin, entry.end);
    return entry;
  }

  ElementType parse_type(const std::string& name, const json& value) const {
    if (!value.is_string()) refuse("tensor '{}' has a dtype that is not a string", name);
    const auto type = parse_element_type(value.get_ref<const std::string&>());
    if (!type) refuse("tensor '{}' has the unknown dtype {}", name, value.dump());
    return *type;
  }

  std::vector<int64_t> parse_integers(const std::string& name, std::string_view field, const json& value) const {
    if (!value.is_array()) refuse("tensor '{}' has a {} that is not an array", name, field);
    std::vector<int64_t> integers;
    for (const json& item : value) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t{INT64_MAX})
        refuse("tensor '{}' has {} in its {}", name, item.dump(), field);
      integers.push_back(item.get<int64_t>());
    }
    return integers;
  }

  void check_filled(std::span<const SafetensorsEntry> entries, int64_t data_bytes) const {
    int64_t end = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != end)
        refuse("tensor '{}' begins at byte {} of the data, {}", entry.name, entry.begin,
               entry.begin < end ? "inside the one before it" : fmt::format("after a hole from byte {}", end));
      if (entry.end > data_bytes)
        refuse("tensor '{}' ends at byte {} of the data, but the file holds only {} (cut short?)", entry.name,
               entry.end, data_bytes);
      end = entry.end;
    }
    if (end != data_bytes) refuse("its tensors take {} bytes, but {} follow the header", end, data_bytes);
  }

  std::span<const std::byte> file_;
  const fs::path& path_;
};

}  // namespace

int64_t size_of(ElementType type) { return row(type).bytes; }
std::string_view name_of(ElementType type) { return row(type).name; }

std::optional<ElementType> parse_element_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &TypeRow::name);
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ElementType::f32;
    case DType::bf16:
      return ElementType::bf16;
    case DType::fp16:
      return ElementType::f16;
    case DType::int32:
      return ElementType::i32;
    case DType::int64:
      return ElementType::i64;
    case DType::uint8:
      return ElementType::u8;
  }
  fail("unknown dtype number {}", static_cast<int>(dtype));
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const fs::path& path) {
  return Parser(file, path).parse();
}

std::string make_safetensors_header(std::span<const SafetensorsEntry> entries,
                                    const std::map<std::string, std::string>& metadata) {
  json root = json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    const int64_t bytes = bytes_of(entry.type, entry.shape);
    PARTITA_CHECK(bytes >= 0, "tensor '{}' has an impossible shape", entry.name);
    PARTITA_CHECK(entry.name != "__metadata__" && !root.contains(entry.name), "the name '{}' occurs twice", entry.name);
    root[entry.name] = {
        {"dtype", name_of(entry.type)}, {"shape", entry.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = root.dump();
  text.resize((text.size() + kLengthBytes + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes, ' ');
  const uint64_t length = text.size();
  PARTITA_CHECK(length <= kLongestHeader, "a header of {} bytes", length);
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

SafetensorsFile::SafetensorsFile(fs::path path, MappedFile::Access access)
    : file_(std::move(path), access), header_(parse_safetensors(file_.bytes(), file_.path())) {
  for (size_t i = 0; i < header_.entries.size(); ++i) index_.emplace(header_.entries[i].name, i);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (!entry) damaged("{} holds no tensor '{}': it holds {} others", path().string(), name, header_.entries.size());
  return *entry;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(static_cast<size_t>(header_.data_begin + entry.begin),
                               static_cast<size_t>(entry.end - entry.begin));
}

SafetensorsWriter::SafetensorsWriter(fs::path path, std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(std::move(path)) {
  const std::string header = make_safetensors_header(entries, metadata);
  expected_ = std::ssize(header);
  for (const SafetensorsEntry& entry : entries) expected_ += bytes_of(entry.type, entry.shape);
  file_.expect(expected_);
  file_.write(header);
}

void SafetensorsWriter::commit() {
  PARTITA_CHECK(file_.size() == expected_, "{}: {} bytes written, the header says {}", path_.string(), file_.size(),
                expected_);
  file_.commit();
}

}  // namespace partita::internal
