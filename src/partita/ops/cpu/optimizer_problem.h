// The operands of one optimizer step on the CPU, for the kernels.
#pragma once
#include "partita/base/random.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal {

// Minimum number of elements per thread.
inline constexpr int64_t kLeastOptimizerElements = 16384;

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
