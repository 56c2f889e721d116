// Makes foreign text (names of files and tensors, tokens, values) safe for a terminal: cursor movement, colors and
// changes of writing direction are escaped.
//
//   printable("run\x1b[2J") == "run\\x1b[2J"
//
// Applied to all names where they leave the program (base/log.h, main).
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

// Escapes control characters other than newline and tab as \x1b or \u0085, characters that reorder text as \u202e, and
// invalid UTF-8 as \xff. Everything else, including backslashes, is unchanged.
[[nodiscard]] std::string printable(std::string_view text);

// For text within a line: also escapes newlines and tabs.
[[nodiscard]] std::string printable_line(std::string_view text);

}  // namespace partita::internal
