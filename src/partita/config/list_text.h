// Lists written as one text: on the command line, or as a string in a file. Pure.
//
//   read_list("[7, 9]")                       // {"7", "9"}; so do "7,9" and "7 9"
//   read_list("[0.7, \"my data/a\", 0.3, b]") // {"0.7", "my data/a", "0.3", "b"}
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Items are separated by commas or spaces, in brackets or not; an item in quotes may contain both. Nothing: a bracket
// or a quote is not closed, or no item is before or after a comma (one after the last item is TOML).
[[nodiscard]] std::optional<std::vector<std::string>> read_list(std::string_view text);

// The same of the words that a shell made of it: each is an item with all its spaces, unless the first word opens a
// bracket or commas separate words.
[[nodiscard]] std::optional<std::vector<std::string>> read_list(std::span<const std::string> words);

}  // namespace partita::internal
