// Lines of a text, ended by "\n" or "\r\n".
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace partita::internal {

// Offset after the line's '\n', or the end of the text.
[[nodiscard]] inline size_t line_end(std::string_view text, size_t at) {
  const size_t newline = text.find('\n', at);
  return newline == std::string_view::npos ? text.size() : newline + 1;
}

// The line without "\n" or "\r\n".
[[nodiscard]] inline std::string_view line_content(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace partita::internal
