// Text that others wrote (names of files and tensors, tokens, values) as a terminal may show it: what would move the cursor,
// change colors, or reverse the direction of writing is spelled out.
//
//   printable("run\x1b[2J") == "run\\x1b[2J"
//
// Everything that the program writes about names passes through it, where it leaves the program (base/log.h, main).
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

// Control characters other than newline and tab as \x1b or \u0085, characters that reorder text as \u202e, bytes that are not
// UTF-8 as \xff. All else, the backslash too, is left as it is.
[[nodiscard]] std::string printable(std::string_view text);

// The same for a place in a line: newlines and tabs are spelled out too.
[[nodiscard]] std::string printable_line(std::string_view text);

}  // namespace partita::internal
