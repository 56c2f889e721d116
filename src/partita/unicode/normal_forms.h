// The normalization forms of Unicode Standard Annex 15, from tables of a pinned version (9.0, as in Hugging Face's
// tokenizers: characters of later versions are unchanged).
//
//   normalized(NormalForm::nfc, "e\u0301") == "\u00E9"
//
// Bytes that are not part of well-formed UTF-8 are unchanged. Linear time, except for sorting runs of combining marks.
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

[[nodiscard]] std::string normalized(NormalForm form, std::string_view text);
// The same without copying unchanged text: returns `text` itself, or a view of `buffer`.
[[nodiscard]] std::string_view normalized(NormalForm form, std::string_view text, std::string& buffer);

// General category M in the same version.
[[nodiscard]] bool is_mark(char32_t code_point);
// General category P in Unicode 8.0, and all ASCII symbols that are not letters or digits.
[[nodiscard]] bool is_punctuation(char32_t code_point);

}  // namespace partita::internal
