// What makes text of a tokenizer's tokens: the decoders of tokenizer.json.
//
//   Decoder decoder{.replacements = {{"▁", " "}}, .byte_fallback = true, .strip_front = 1};
//   decoder.bytes_of("▁the") == " the";   decoder.bytes_of("<0x0A>") == "\n";   decoder.finish(" the end") == "the end"
//
// Byte-level tokens are bytes already and need none of this. Bytes stay what they are: the reference writes U+FFFD for
// those that are no UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace partita::internal {

struct Decoder {
  std::vector<std::pair<std::string, std::string>> replacements;  // in each token, in this order
  bool byte_fallback = false;                                     // <0x00> .. <0xFF> are bytes
  size_t strip_front = 0;                                         // so many spaces in front of the text are left out
  // Metaspace: what stands for a space is left out of the first token. Empty: it is not.
  std::string left_out_of_first;

  [[nodiscard]] std::string bytes_of(std::string_view token) const;
  // As the first token of a text.
  [[nodiscard]] std::string first_bytes_of(std::string_view token) const;
  [[nodiscard]] std::string finish(std::string text) const;
};

}  // namespace partita::internal
