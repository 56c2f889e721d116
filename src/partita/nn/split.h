// The part of a parameter that each rank of a tensor-parallel group holds. Pure.
//
//   local_boxes(spec, 1, 2);     // of qkv [3 * 768, 768], 12 heads: heads 6 to 11 of q, of k and of v, all columns
//
// Each part is split separately and as evenly as possible into multiples of its quantum. Parts with the same number of
// quanta are split at the same points, so that the output of one linear is on the rank that reads it: an attention
// output projection reads the heads computed from its own rank's q, k and v.
#pragma once
#include <vector>

#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

// One box per part, in order; stacked, they form the matrix that the rank multiplies with. The whole parameter if it is
// not split. Error: a part with fewer quanta than ranks.
[[nodiscard]] std::vector<Box> local_boxes(const ParameterSpec&, int rank, int ranks);

}  // namespace partita::internal
