// Stochastic rounding of optimizer outputs to bf16 (S. Gupta et al., "Deep learning with limited numerical precision",
// 2015): rounds up with a probability equal to the relative distance from the lower neighbor, so that the expected
// value is exact. Updates far below half an ulp, which rounding to nearest would always lose, move the weights by the
// right amount on average; values exact in bf16 are unchanged.
//
// The random bits are a function of (seed, step, parameter, tensor, element): base/random.h. The result does not depend
// on how a parameter is divided into slices and threads.
#pragma once
#include <cstdint>

namespace partita::internal {

// Position of a call's elements. Read only if the master weights are bf16.
struct Rounding {
  uint64_t parameter = 0;  // hash_of(name)
  int64_t first = 0;       // index of the first element within the whole parameter
  friend bool operator==(const Rounding&, const Rounding&) = default;
};

}  // namespace partita::internal
