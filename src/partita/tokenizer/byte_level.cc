#include "partita/tokenizer/byte_level.h"

#include <algorithm>

#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// Bytes without a printable form of their own map to U+0100, U+0101, ... in order.
constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[static_cast<size_t>(byte)] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}();
constexpr char32_t kEnd = 0x144;  // 68 bytes are not printable

constexpr std::array<int16_t, kEnd> kBytes = [] {
  std::array<int16_t, kEnd> bytes{};
  bytes.fill(-1);
  for (size_t byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

std::string to_printable(std::string_view bytes) {
  std::string text;
  for (char c : bytes) append_utf8(text, kCharacters[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> from_printable(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.value >= kEnd || kBytes[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[c.value]));
    at += c.bytes;
  }
  return bytes;
}

const std::array<uint8_t, 256>& byte_level_alphabet() {
  static const std::array<uint8_t, 256> alphabet = [] {
    std::array<uint8_t, 256> bytes{};
    for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
    std::sort(bytes.begin(), bytes.end(), [](uint8_t a, uint8_t b) { return kCharacters[a] < kCharacters[b]; });
    return bytes;
  }();
  return alphabet;
}

}  // namespace partita::internal
