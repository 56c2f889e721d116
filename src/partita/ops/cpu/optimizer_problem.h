// The operands of one optimizer step on the CPU, for the kernels.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>

#include "partita/base/random.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal {

// Calls f(begin, end) for ranges of `count` elements on all threads. Ranges begin at multiples of a cache line.
template <class F>
void for_element_ranges(int64_t count, const F& f) {
  constexpr int64_t kBlock = 128, kLeastBlocks = 128;  // elements; blocks per thread
  at::parallel_for(0, (count + kBlock - 1) / kBlock, kLeastBlocks,
                   [&](int64_t begin, int64_t end) { f(begin * kBlock, std::min(count, end * kBlock)); });
}

// From this size on, weights are written with non-temporal stores. A smaller slice, of at most 72 MB with its states
// and gradient, may fit into the last-level cache, where weights are better left for the next forward pass.
inline constexpr int64_t kLeastStreamedElements = int64_t{1} << 22;

struct OptimizerProblem : OptimizerOperands {
  OptimizerProblem(const at::Tensor& the_master, std::initializer_list<OptimizerState> the_states,
                   const at::Tensor& the_gradient, const at::Tensor& the_weight, const StepScalars* the_now,
                   const Rounding& the_rounding)
      : OptimizerOperands(the_master, the_states, the_gradient, the_weight, the_now, the_rounding, at::kCPU),
        key(rounding_key(now->seed, rounding.parameter)),
        step(now->step),
        first(rounding.first) {}

  PhiloxKey key;        // for stochastic rounding
  int64_t step, first;  // counter key; index of the first element within the whole parameter
};

}  // namespace partita::internal
