#include "partita/unicode/unicode.h"

#include <algorithm>
#include <cstring>

namespace partita::internal {
namespace {

unsigned char byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }
bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Properties of a lead byte (Unicode standard, table 3-7): the length of its sequence, 0 if it is not a lead byte, and
// the range of its second byte, which excludes overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  uint32_t bytes;
  unsigned char second_min, second_max;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

// Number of bytes from `at` that begin a well-formed sequence: all of it, or the part before the error.
uint32_t well_formed_prefix(std::string_view text, size_t at, const Lead& lead) {
  if (lead.bytes == 0) return 0;
  const size_t end = std::min(text.size(), at + lead.bytes);
  size_t i = at + 1;
  if (i < end && byte_at(text, i) >= lead.second_min && byte_at(text, i) <= lead.second_max) {
    for (++i; i < end && is_continuation(byte_at(text, i));) ++i;
  }
  return static_cast<uint32_t>(i - at);
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  const unsigned char first = byte_at(text, at);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0 || well_formed_prefix(text, at, lead) != lead.bytes) return {kInvalidByte, 1};
  char32_t value = first & (0x7FU >> lead.bytes);
  for (uint32_t i = 1; i < lead.bytes; ++i) value = (value << 6) | (byte_at(text, at + i) & 0x3FU);
  return {value, lead.bytes};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](int bits) { put(0x80 | ((c >> bits) & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put_tail(0);
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0 | (c >> 18));
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

std::optional<size_t> find_invalid_utf8(std::string_view text, size_t from) {
  for (size_t i = from; i < text.size();) {
    // Most text is ASCII: skip eight bytes at a time.
    uint64_t eight;
    if (text.size() - i >= sizeof eight) {
      std::memcpy(&eight, text.data() + i, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        i += sizeof eight;
        continue;
      }
    }
    const CodePoint c = decode_utf8(text, i);
    if (c.value == kInvalidByte) return i;
    i += c.bytes;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t bad = find_invalid_utf8(text, i).value_or(text.size());
    out.append(text, i, bad - i);
    if (bad == text.size()) break;
    append_utf8(out, 0xFFFD);
    i = bad + std::max(1U, well_formed_prefix(text, bad, lead_of(byte_at(text, bad))));
  }
  return out;
}

const internal::ClassTable& class_table() {
  static const ClassTable table = [] {
    ClassTable made{};
    for (const ClassRange& range : class_ranges) {
      std::fill(made.begin() + range.first, made.begin() + range.last + 1, range.value);
    }
    return made;
  }();
  return table;
}

const internal::CategoryTable& category_table() {
  static const CategoryTable table = [] {
    CategoryTable made{};
    for (const CategoryRange& range : category_ranges()) {
      std::fill(made.begin() + range.first, made.begin() + range.last + 1, range.value);
    }
    return made;
  }();
  return table;
}

}  // namespace partita::internal
