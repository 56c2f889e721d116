// Rewrites regular expressions of tokenizer.json for PCRE2 so that they match the same text.
//
// Files use Oniguruma's syntax (the Ruby dialect). PCRE2's classes come from an older Unicode version, its \s contains
// U+180E, and its \v and \h differ. Every class is therefore expanded to ranges of code points, and constructs that the
// two dialects interpret differently are rejected.
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

// Error: begins with `origin` and names the unsupported part: scripts and other properties, \b, back references, named
// groups, nested and intersected classes, case-insensitive classes, {n}? and {n,m}+.
[[nodiscard]] std::string translate_regex(std::string_view regex, std::string_view origin);

}  // namespace partita::internal
