// AdamW over the slices of units.
//
//   AdamWOptimizer optimizer(options);
//   auto states = optimizer.make_states(layout.slice_count());        // zero
//   optimizer.step(runs, {master, gradient, weight, states}, now);
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "partita/ops/step_scalars.h"
#include "partita/shard/layout.h"

namespace partita {

// One rank's slice of one unit.
struct ShardView {
  at::Tensor master;               // [slice] fp32
  at::Tensor gradient;             // [slice] fp32
  at::Tensor weight;               // [slice] in the compute dtype; master itself where that is fp32
  std::vector<at::Tensor> states;  // [slice] fp32 each
};

// Neighbouring elements with the same hyper-parameters: one launch.
struct OptimizerRun {
  int64_t begin, count;  // in the slice
  bool decay;
  friend bool operator==(const OptimizerRun&, const OptimizerRun&) = default;
};
// Runs of the slice of `rank`. They pass over padding between equals: it is zero in every buffer, and stays so. Pure.
[[nodiscard]] std::vector<OptimizerRun> optimizer_runs(const Layout&, int rank);

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
};

class AdamWOptimizer {
 public:
  explicit AdamWOptimizer(AdamWOptions options) : options_(options) {}
  // Names of the states, as checkpoints call them: "adamw.m", "adamw.v".
  [[nodiscard]] static std::span<const std::string> state_names();
  [[nodiscard]] std::vector<at::Tensor> make_states(int64_t count) const;
  void step(std::span<const OptimizerRun>, const ShardView&, const StepScalars* now) const;

 private:
  AdamWOptions options_;
};

}  // namespace partita
