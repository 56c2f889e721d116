#include "partita/interop/gguf_format.h"

#include <bit>
#include <cstring>
#include <set>
#include <string_view>
#include <type_traits>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kVersion = 3;
constexpr size_t kLongestName = 63;

// Types of metadata, with their numbers in the format.
enum class ValueType : uint32_t { uint8 = 0, uint32 = 4, int32 = 5, float32 = 6, boolean = 7, string = 8, array = 9 };

template <class T>
constexpr ValueType kTypeOf = std::is_same_v<T, uint8_t>    ? ValueType::uint8
                              : std::is_same_v<T, uint32_t> ? ValueType::uint32
                              : std::is_same_v<T, int32_t>  ? ValueType::int32
                              : std::is_same_v<T, float>    ? ValueType::float32
                              : std::is_same_v<T, bool>     ? ValueType::boolean
                                                            : ValueType::string;

int64_t aligned(int64_t bytes) { return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

class Text {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void add(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    text_.append(bytes, sizeof(T));
  }
  void add(std::string_view text) {
    add(uint64_t{text.size()});
    text_ += text;
  }
  void add_value(const GgufValue& value) {
    std::visit([this](const auto& v) { add_typed(v); }, value);
  }
  void align() { text_.resize(static_cast<size_t>(aligned(static_cast<int64_t>(text_.size()))), '\0'); }

  std::string text_;

 private:
  template <class T>
  void add_typed(const T& value) {
    add(kTypeOf<T>);
    add(value);
  }
  template <class T>
  void add_typed(const std::vector<T>& values) {
    add(ValueType::array);
    add(kTypeOf<T>);
    add(uint64_t{values.size()});
    for (const T& value : values) add(value);
  }
};

}  // namespace

int64_t bytes_of(GgufType type, int64_t elements) {
  switch (type) {
    case GgufType::f32:
      return 4 * elements;
    case GgufType::f16:
    case GgufType::bf16:
      return 2 * elements;
    case GgufType::q8_0:
      break;
  }
  PARTITA_CHECK(elements % kQ8BlockElements == 0, "{} elements as q8_0", elements);
  return elements / kQ8BlockElements * (kQ8BlockElements + 2);
}

GgufLayout lay_out_gguf(const GgufMetadata& metadata, std::span<const GgufEntry> entries) {
  std::set<std::string_view> names;
  Text out;
  out.text_ = "GGUF";
  out.add(kVersion);
  out.add(uint64_t{entries.size()});
  out.add(uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata) {
    PARTITA_CHECK(names.insert(key).second, "the key {} occurs twice", key);
    out.add(std::string_view(key));
    out.add_value(value);
  }
  names.clear();
  GgufLayout layout;
  int64_t offset = 0;
  for (const GgufEntry& entry : entries) {
    PARTITA_CHECK(names.insert(entry.name).second && entry.name.size() <= kLongestName, "the tensor name {}",
                  entry.name);
    out.add(std::string_view(entry.name));
    out.add(static_cast<uint32_t>(entry.shape.size()));
    int64_t elements = 1;
    for (size_t d = entry.shape.size(); d-- > 0;) {
      out.add(static_cast<uint64_t>(entry.shape[d]));
      elements *= entry.shape[d];
    }
    out.add(entry.type);
    out.add(static_cast<uint64_t>(offset));
    layout.offsets.push_back(offset);
    offset += aligned(bytes_of(entry.type, elements));
  }
  out.align();
  layout.header = std::move(out.text_);
  const auto data = static_cast<int64_t>(layout.header.size());
  for (int64_t& at : layout.offsets) at += data;
  layout.bytes = data + offset;
  return layout;
}

}  // namespace partita::internal
