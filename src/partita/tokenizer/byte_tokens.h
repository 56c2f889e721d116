// Names of SentencePiece's byte tokens: "<0x00>" to "<0xFF>".
//
//   byte_token_name(10) == "<0x0A>"; byte_of_token_name("<0x0A>") == 10
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

[[nodiscard]] inline std::string byte_token_name(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

[[nodiscard]] inline std::optional<unsigned char> byte_of_token_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(name[3]), low = kDigits.find(name[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned char>(high << 4 | low);
}

}  // namespace partita::internal
