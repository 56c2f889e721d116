// Nesting depth of tables and arrays in a TOML text, computed without parsing: each dotted key and bracket counts one
// level. The TOML parser and its destructors recurse once per level, so deep texts must be rejected first.
//
//   if (const TomlDepth found = toml_depth(text); found.levels > kNestingLimit) fail("{}:{}: ...", file, found.line);
#pragma once
#include <cstdint>
#include <string_view>

namespace partita::internal {

struct TomlDepth {
  int64_t levels = 0;  // maximum depth; exact for valid TOML, where a header's levels are separate from its keys'
  int64_t line = 1;    // where the maximum is first reached
};

[[nodiscard]] TomlDepth toml_depth(std::string_view text);

}  // namespace partita::internal
