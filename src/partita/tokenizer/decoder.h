// Converts tokens back to text: the decoders of tokenizer.json.
//
//   Decoder decoder{.replacements = {{"▁", " "}}, .byte_fallback = true, .strip_front = 1};
//   decoder.bytes_of("▁the") == " the";   decoder.bytes_of("<0x0A>") == "\n";   decoder.finish(" the end") == "the end"
//
// Byte-level tokens are bytes already and need no decoder. Ill-formed UTF-8 is kept as it is; the reference writes
// U+FFFD for it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partita::internal {

struct Decoder {
  std::vector<std::pair<std::string, std::string>> replacements;  // applied to each token, in order
  bool byte_fallback = false;                                     // decode <0x00> .. <0xFF> as bytes
  size_t strip_front = 0;                                         // number of leading spaces to remove from the text
  // Metaspace: the space symbol to remove from the first token. Empty: none.
  std::string left_out_of_first;

  [[nodiscard]] std::string bytes_of(std::string_view token) const;
  // Decodes a token that is the first of a text.
  [[nodiscard]] std::string first_bytes_of(std::string_view token) const;
  [[nodiscard]] std::string finish(std::string text) const;
};

}  // namespace partita::internal
