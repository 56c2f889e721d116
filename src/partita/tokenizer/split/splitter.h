// Pre-tokenisation by the patterns that known tokenizers use: cuts a text into the pieces ("pretokens") inside which
// tokens may merge.
//
//   for (size_t begin = 0; begin < text.size();) {
//     const size_t end = pretoken_end(SplitPattern::llama3, text, begin);
//     use(text.substr(begin, end - begin));
//     begin = end;
//   }
//
// Files name a pattern by its regular expression: find_split_pattern() recognises those that stand here, which are
// scanned by hand; others go through pre_tokenizer.h. In all of them \s is the property White_Space (25 code points),
// categories are those of the pinned tables of unicode.h, and a byte that is no part of well-formed UTF-8 is a unit of
// its own that is neither space, letter, mark nor number. So every byte of any text is in exactly one pretoken.
//
// Contract, for whoever scans faster: the pretokens of a text are what this loop gives. A pretoken's end depends on
// the bytes from its beginning on alone (never on those before), and is found in time linear in the pretoken plus the
// white space behind it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace partita::internal {

enum class SplitPattern : uint8_t {
  whole,   // the text is one pretoken
  gpt2,    // gpt2_split.h; also r50k_base and p50k_base
  cl100k,  // GPT-4: like llama3, but white space at the end of a text is one pretoken, line ends in it or not
  llama3,  // contractions of any case, one character in front of letters, 1 to 3 digits, line ends by themselves
  qwen2,   // llama3 with single digits
  o200k,   // GPT-4o, Llama 4: words end where lower case meets upper; contractions belong to their word
  tekken,  // Mistral: o200k with single digits and without contractions
};

// The end of the pretoken that begins at `begin` < text.size().
[[nodiscard]] size_t pretoken_end(SplitPattern pattern, std::string_view text, size_t begin);

// By the regular expression, as tokenizer.json (Split) writes it: nothing where the dialects differ.
[[nodiscard]] std::optional<SplitPattern> find_split_pattern(std::string_view regex);

}  // namespace partita::internal
