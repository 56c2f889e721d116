// Pre-tokenization with the patterns of well-known tokenizers: splits text into pieces ("pretokens") within which
// tokens may merge.
//
//   for (size_t begin = 0; begin < text.size();) {
//     const size_t end = pretoken_end(SplitPattern::llama3, text, begin);
//     use(text.substr(begin, end - begin));
//     begin = end;
//   }
//
// Files specify a pattern by its regular expression: find_split_pattern() recognizes the ones listed here, which have
// hand-written scanners; others are handled by pre_tokenizer.h. In all of them \s is the property White_Space (25 code
// points), categories are those of the pinned tables of unicode.h, and a byte that is not part of well-formed UTF-8 is
// a unit that is neither space, letter, mark nor number. So every byte of any text is in exactly one pretoken.
//
// Contract for faster scanners: this loop defines the pretokens of a text. The end of a pretoken depends only on the
// bytes from its beginning on, and is found in time linear in the pretoken plus the white space after it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace partita::internal {

enum class SplitPattern : uint8_t {
  whole,   // the whole text is one pretoken
  gpt2,    // gpt2_split.h; also r50k_base and p50k_base
  cl100k,  // GPT-4: like llama3, but white space at the end of a text is one pretoken, including line ends
  llama3,  // case-insensitive contractions, one character before letters, 1 to 3 digits, line ends separate
  qwen2,   // llama3 with single digits
  o200k,   // GPT-4o, Llama 4: words end where lower case meets upper case; contractions belong to their word
  tekken,  // Mistral: o200k with single digits and without contractions
};

// End of the pretoken that begins at `begin` < text.size().
[[nodiscard]] size_t pretoken_end(SplitPattern pattern, std::string_view text, size_t begin);

// Recognizes the regular expression as written in tokenizer.json (Split); empty if unknown.
[[nodiscard]] std::optional<SplitPattern> find_split_pattern(std::string_view regex);

}  // namespace partita::internal
