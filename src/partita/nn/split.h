// What each rank of a tensor-parallel group holds of a parameter. Pure.
//
//   local_boxes(spec, 1, 2);     // of qkv [3 * 768, 768], 12 heads: heads 6 to 11 of q, of k and of v, all columns
//
// Each part is cut by itself into multiples of its quantum, as even as they get. Parts with the same number of quanta
// are cut at the same ones, so that what one linear gives to the next is on the same rank: an attention's output reads
// the heads that q, k and v of its rank have made.
#pragma once
#include <vector>

#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

// A box of each part, in their order: one above the other they are the matrix that the rank multiplies with. All of the
// parameter where it is not split. Error: a part has fewer quanta than there are ranks.
[[nodiscard]] std::vector<Box> local_boxes(const ParameterSpec&, int rank, int ranks);

}  // namespace partita::internal
