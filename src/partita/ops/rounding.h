// Stochastic rounding of what an optimizer writes into bf16 (S. Gupta et al., "Deep learning with limited numerical
// precision", 2015): up with the probability by which the value has left the lower neighbour, so that the mean is the
// value itself. Updates far below half a unit in the last place, which rounding to nearest would lose every time, move
// the weights by the right amount on average; what bf16 holds exactly stays as it is.
//
// The random bits are a function of (seed, step, parameter, tensor, element): base/random.h. However a parameter is cut
// into slices and threads, it becomes the same bits.
#pragma once
#include <cstdint>

namespace partita::internal {

// Where the elements of a call stand. Read only if the master weights are bf16.
struct Rounding {
  uint64_t parameter = 0;  // hash_of(name)
  int64_t first = 0;       // index, in the whole parameter, of the first element
  friend bool operator==(const Rounding&, const Rounding&) = default;
};

}  // namespace partita::internal
