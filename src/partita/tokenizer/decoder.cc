#include "partita/tokenizer/decoder.h"

#include <algorithm>

#include "partita/tokenizer/normalizer.h"
#include "partita/tokenizer/split/pre_tokenizer.h"

namespace partita::internal {
namespace {

// Value of a digit of "<0x0A>", in upper (as in vocabularies) or lower case.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string Decoder::bytes_of(std::string_view token) const {
  std::string text(token);
  const size_t most = Normalizer::most_bytes(token.size());
  for (const auto& [from, to] : replacements) text = Matcher::text(from).replace(text, to, most);
  if (byte_fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) {
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    if (high >= 0 && low >= 0) return {static_cast<char>(high * 16 + low)};
  }
  return text;
}

std::string Decoder::first_bytes_of(std::string_view token) const {
  if (left_out_of_first.empty()) return bytes_of(token);
  return bytes_of(Matcher::text(left_out_of_first).replace(token, ""));
}

std::string Decoder::finish(std::string text) const {
  const size_t spaces = std::min(text.find_first_not_of(' '), text.size());
  return text.erase(0, std::min(strip_front, spaces));
}

}  // namespace partita::internal
