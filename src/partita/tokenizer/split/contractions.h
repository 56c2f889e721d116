// English contractions, which split patterns (splitter.h) separate: "it's" becomes "it" and "'s".
#pragma once
#include <cstddef>
#include <string_view>

namespace partita::internal {

// Bytes of 's|'t|'re|'ve|'m|'ll|'d at text[at], which is an apostrophe; 0 if there is none.
[[nodiscard]] inline size_t contraction_bytes(std::string_view text, size_t at) {
  const std::string_view two = text.substr(at + 1, 2);
  if (two == "re" || two == "ve" || two == "ll") return 3;
  return !two.empty() && (two[0] == 's' || two[0] == 't' || two[0] == 'm' || two[0] == 'd') ? 2 : 0;
}

// The same for (?i:'s|'t|'re|'ve|'m|'ll|'d). U+017F, the long s, matches s case-insensitively.
[[nodiscard]] inline size_t contraction_bytes_any_case(std::string_view text, size_t at) {
  const std::string_view two = text.substr(at + 1, 2);
  if (two == "\u017F") return 3;
  char lower[3] = {'\'', 0, 0};
  for (size_t i = 0; i < two.size(); ++i) {
    lower[i + 1] = two[i] >= 'A' && two[i] <= 'Z' ? static_cast<char>(two[i] - 'A' + 'a') : two[i];
  }
  return contraction_bytes({lower, 1 + two.size()}, 0);
}

}  // namespace partita::internal
