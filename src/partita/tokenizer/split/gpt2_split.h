// GPT-2's pre-tokenisation: cuts a text into the pieces ("pretokens") inside which byte pairs may merge.
//
//   for (size_t begin = 0; begin < text.size();) {
//     const size_t end = gpt2_pretoken_end(text, begin);
//     use(text.substr(begin, end - begin));
//     begin = end;
//   }
//
// The same pieces as the regular expression of GPT-2's encoder.py (OpenAI, 2019)
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// where \s is White_Space. A byte that is no part of well-formed UTF-8 counts as neither space, letter nor number, so
// every byte of any text is in exactly one piece.
#pragma once
#include <cstddef>
#include <string_view>

namespace partita::internal {

// The end of the pretoken that begins at `begin` < text.size(). Looks at no byte before `begin`.
[[nodiscard]] size_t gpt2_pretoken_end(std::string_view text, size_t begin);

// The first place at or after `from` where the text may be cut in two without changing its pretokens (text.size() if
// there is none): between an ASCII character that is no space and an ASCII space.
[[nodiscard]] size_t gpt2_safe_cut(std::string_view text, size_t from);

}  // namespace partita::internal
