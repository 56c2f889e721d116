// How deep a TOML text nests tables and arrays, found without building them: dotted keys and brackets count one level
// each. The parser and the destructor of its tables call themselves per level, so deep texts must be refused before.
//
//   if (const TomlDepth found = toml_depth(text); found.levels > kNestingLimit) fail("{}:{}: ...", file, found.line);
#pragma once
#include <cstdint>
#include <string_view>

namespace partita::internal {

struct TomlDepth {
  int64_t levels = 0;  // the most anywhere; exact for valid TOML, where a header's levels count apart from its keys'
  int64_t line = 1;    // where they are first reached
};

[[nodiscard]] TomlDepth toml_depth(std::string_view text);

}  // namespace partita::internal
