// Regular expressions of tokenizer.json, rewritten for PCRE2 so that they match the same text.
//
// Files write them for Oniguruma (Ruby's dialect). PCRE2 has classes of an older Unicode version than the pinned one,
// its \s has U+180E, its \v and \h are other things: every class is therefore written out as ranges of code points, and
// what the two dialects understand differently is refused.
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

// Error: begins with `origin` and says which part is not supported: scripts and other properties, \b, back
// references, named groups, nested and intersected classes, classes where case is ignored, {n}? and {n,m}+.
[[nodiscard]] std::string translate_regex(std::string_view regex, std::string_view origin);

}  // namespace partita::internal
