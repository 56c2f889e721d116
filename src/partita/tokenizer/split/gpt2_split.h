// GPT-2's pre-tokenization: splits text into pieces ("pretokens") within which byte pairs may merge.
//
//   for (size_t begin = 0; begin < text.size();) {
//     const size_t end = gpt2_pretoken_end(text, begin);
//     use(text.substr(begin, end - begin));
//     begin = end;
//   }
//
// Equivalent to the regular expression of GPT-2's encoder.py (OpenAI, 2019)
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// where \s is White_Space. A byte that is not part of well-formed UTF-8 counts as neither space, letter nor number, so
// every byte of any text is in exactly one piece.
#pragma once
#include <cstddef>
#include <string_view>

namespace partita::internal {

// End of the pretoken that begins at `begin` < text.size(). Independent of the bytes before `begin`.
[[nodiscard]] size_t gpt2_pretoken_end(std::string_view text, size_t begin);

// First position at or after `from` where the text can be split without changing its pretokens: between a non-space
// ASCII character and an ASCII space. text.size() if there is none.
[[nodiscard]] size_t gpt2_safe_cut(std::string_view text, size_t from);

}  // namespace partita::internal
