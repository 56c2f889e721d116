// "Did you mean ...?": the known name nearest to a mistyped one.
//
//   nearest("cosin", names)   // "cosine"
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace partita::internal {

// Number of insertions, deletions, replacements and swaps of neighbors that turn a into b (optimal string alignment).
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The name with the smallest edit distance, ignoring case and the difference between '-' and '_'; the first on ties. A
// unique completion of `name` (three characters or more) also counts as near. Empty if nothing is near: if more than
// half of the longer name would have to change.
[[nodiscard]] std::string nearest(std::string_view name, std::span<const std::string> known);

}  // namespace partita::internal
