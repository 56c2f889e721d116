#include "partita/config/toml_depth.h"

#include <algorithm>
#include <vector>

namespace partita::internal {
namespace {

// End of the string that begins at `at`: past its closing quote, or the end of the line for an unterminated single-line
// string.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool escapes = quote == '"', lines = three.size() == 3 && three[1] == quote && three[2] == quote;
  for (size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (escapes && text[i] == '\\') {
      ++i;
    } else if (!lines && text[i] == '\n') {
      return i;
    } else if (!lines && text[i] == quote) {
      return i + 1;
    } else if (lines && text.substr(i, 3) == three) {
      i += 3;
      while (i < text.size() && text[i] == quote) ++i;  // up to two quotes may precede the closing three
      return i;
    }
  }
  return text.size();
}

}  // namespace

TomlDepth toml_depth(std::string_view text) {
  TomlDepth most;
  int64_t line = 1, levels = 0;
  std::vector<int64_t> open;  // level of each open bracket
  const auto deeper = [&] {
    if (++levels > most.levels) most = {levels, line};
  };
  for (size_t i = 0; i < text.size();) {
    switch (text[i]) {
      case '"':
      case '\'': {
        const size_t end = end_of_string(text, i);
        line += std::ranges::count(text.substr(i, end - i), '\n');
        i = end;
        continue;
      }
      case '#':
        i = std::min(text.find('\n', i), text.size());
        continue;
      case '\n':
        ++line;
        if (open.empty()) levels = 0;
        break;
      case '.':  // key separator; a decimal point is counted too, until its value ends
        deeper();
        break;
      case '[':
      case '{':
        open.push_back(levels);
        deeper();
        break;
      case ',':
        if (!open.empty()) levels = open.back() + 1;
        break;
      case ']':
      case '}':
        if (!open.empty()) {
          levels = open.back();
          open.pop_back();
        }
        break;
      default:
        break;
    }
    ++i;
  }
  return most;
}

}  // namespace partita::internal
