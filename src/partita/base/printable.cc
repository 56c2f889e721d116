#include "partita/base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace partita::internal {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the text does not begin with a valid UTF-8 character
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool shortest = code >= (bytes == 4 ? 0x10000u : bytes == 3 ? 0x800u : 0x80u);
  const bool scalar = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return shortest && scalar ? Character{code, bytes} : Character{};
}

bool reorders_text(uint32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    if (bytes == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    else if ((code < 0x20 && kept.find(static_cast<char>(code)) == kept.npos) || code == 0x7F)
      out += fmt::format("\\x{:02x}", code);
    else if ((code >= 0x80 && code < 0xA0) || code == 0x2028 || code == 0x2029 || reorders_text(code))
      out += fmt::format("\\u{:04x}", code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return printable(text, "\n\t"); }
std::string printable_line(std::string_view text) { return printable(text, ""); }

}  // namespace partita::internal
