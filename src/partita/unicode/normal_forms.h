// The normal forms of Unicode Standard Annex 15, from tables of a pinned version (9.0, that of Hugging Face's
// tokenizers: a character of a later version stays as it is).
//
//   normalized(NormalForm::nfc, "e\u0301") == "\u00E9"
//
// Bytes that are no part of well-formed UTF-8 stay as they are. Linear, but for runs of combining marks, which are
// sorted.
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

[[nodiscard]] std::string normalized(NormalForm form, std::string_view text);
// The same without a copy where nothing changes: `text` itself, or a view of `buffer`.
[[nodiscard]] std::string_view normalized(NormalForm form, std::string_view text, std::string& buffer);

// General category M, as of the same version.
[[nodiscard]] bool is_mark(char32_t code_point);
// General category P (as of Unicode 8.0), and the signs of ASCII that are no letters or digits.
[[nodiscard]] bool is_punctuation(char32_t code_point);

}  // namespace partita::internal
