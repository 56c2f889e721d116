// Checks that the pieces of a tensor hold each element exactly once. Pure.
//
//   check_tiling(info, {{.rows = 2, .columns = 5}, {.row = 2, .rows = 1, .columns = 5}});
#pragma once
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/nn/box.h"

namespace partita::internal {

// O(n log n) for n boxes. Damaged: a box exceeds the tensor, or elements are in two boxes or in none; names the tensor
// and the first such rows and columns.
void check_tiling(const TensorInfo&, std::vector<Box> boxes);

// "rows [0, 2), columns [3, 5)"; for a vector "elements [3, 5)".
[[nodiscard]] std::string box_text(const TensorInfo&, const Box&);

}  // namespace partita::internal
