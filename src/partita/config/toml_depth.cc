#include "partita/config/toml_depth.h"

#include <algorithm>
#include <vector>

namespace partita::internal {
namespace {

// Where the string ends that begins at `at`: behind its last quote, or, of a string of one line, at the line's end.
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
      while (i < text.size() && text[i] == quote) ++i;  // up to two quotes may stand before the last three
      return i;
    }
  }
  return text.size();
}

}  // namespace

TomlDepth toml_depth(std::string_view text) {
  TomlDepth most;
  int64_t line = 1, levels = 0;
  std::vector<int64_t> open;  // levels around each bracket that is open
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
      case '.':  // of a key; that of a number is taken for one too, and goes with the value
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
