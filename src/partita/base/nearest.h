// "Did you mean ...?": the known name nearest to a mistyped one.
//
//   nearest("cosin", names)   // "cosine"
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace partita::internal {

// Insertions, deletions, replacements and swaps of neighbors that turn a into b (optimal string alignment).
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The name with the least edit distance, where upper and lower case, '-' and '_' are the same; of equals the first. A
// name of which `name` is the beginning (three characters or more) and no other's is near, too. Empty where nothing is
// near: where more than half of the longer name would have to change.
[[nodiscard]] std::string nearest(std::string_view name, std::span<const std::string> known);

}  // namespace partita::internal
