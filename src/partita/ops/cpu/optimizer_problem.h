// The checked operands of one optimizer step, for the kernels.
#pragma once
#include <array>
#include <initializer_list>

#include "partita/base/random.h"
#include "partita/ops/cpu/check.h"
#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

// Minimum number of elements per thread.
inline constexpr int64_t kLeastOptimizerElements = 16384;

struct OptimizerState {
  const char* name;
  at::Tensor tensor;
};

struct OptimizerProblem {
  OptimizerProblem(const at::Tensor& the_master, std::initializer_list<OptimizerState> the_states,
                   const at::Tensor& the_gradient, const at::Tensor& the_weight, const StepScalars& now,
                   const Rounding& rounding)
      : master(the_master),
        gradient(the_gradient),
        count(the_master.defined() ? the_master.numel() : 0),
        key(rounding_key(now.seed, rounding.parameter)),
        step(now.step),
        first(rounding.first) {
    PARTITA_CHECK(master.defined(), "master is missing");
    const at::ScalarType dtype = master.scalar_type();
    PARTITA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "master: dtype {}, expected fp32 or bf16",
                  at::toString(dtype));
    check_tensor(master, "master", {count}, dtype);
    for (const OptimizerState& state : the_states) check_tensor(state.tensor, state.name, {count}, dtype);
    size_t s = 0;
    for (const OptimizerState& state : the_states) states[s++] = state.tensor;
    check_tensor(gradient, "gradient", {count}, check_activation(gradient, "gradient"));
    if (!the_weight.defined() || the_weight.const_data_ptr() == master.const_data_ptr()) return;
    weight = the_weight;
    const bool half = weight.scalar_type() == at::kBFloat16 || weight.scalar_type() == at::kHalf;
    PARTITA_CHECK(half && dtype == at::kFloat, "weight: dtype {} beside master weights in {}, expected {}",
                  at::toString(weight.scalar_type()), at::toString(dtype),
                  dtype == at::kFloat ? "bf16, fp16 or the master itself" : "the master itself");
    check_tensor(weight, "weight", {count}, weight.scalar_type());
  }

  at::Tensor master, gradient;
  at::Tensor weight;  // if defined, receives the rounded master
  std::array<at::Tensor, 2> states;
  int64_t count;
  PhiloxKey key;        // for stochastic rounding
  int64_t step, first;  // counter key; index of the first element within the whole parameter
};

}  // namespace partita::internal
