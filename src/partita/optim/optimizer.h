// Updates slices of units: one interface for AdamW, SGD and LAMB.
//
//   std::unique_ptr<Optimizer> optimizer = make_optimizer({.kind = OptimizerKind::lamb});
//   view.states = optimizer->make_states(layout.slice_count(), DType::fp32);                // zero
//   if (optimizer->needs_norms()) optimizer->measure(view, norms, now);    // all units, then all-reduce over shards
//   optimizer->step(view, norms, now);
//
// Formulas, dtypes and rounding: ops/adamw.h, ops/sgd.h and ops/lamb.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/ops/step_scalars.h"
#include "partita/optim/optimizer_options.h"
#include "partita/shard/layout.h"

namespace partita::internal {

// One rank's slice of one unit.
struct ShardView {
  const Layout* layout = nullptr;
  std::vector<Segment> segments;  // of the slice (slice_segments)
  int first_parameter = 0;        // row of the layout's first parameter in the table of norms
  at::Tensor master;              // [slice] fp32, or bf16 with stochastic rounding
  at::Tensor gradient;            // [slice] fp32, or half precision if nothing is accumulated
  // [slice] in the compute dtype; master itself if the dtypes are equal; undefined if not needed.
  at::Tensor weight;
  std::vector<at::Tensor> states;  // [slice] each, in the dtype of master
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Names in checkpoints: "adamw.m", "adamw.v"; "sgd.momentum", none at momentum 0; "lamb.m", "lamb.v".
  [[nodiscard]] virtual std::span<const std::string> state_names() const = 0;
  [[nodiscard]] std::vector<at::Tensor> make_states(int64_t count, DType, at::Device = at::kCPU) const;

  // Norms of whole parameters, of which a slice has parts. `measure` adds to norms [parameters, 2] double (initially 0)
  // this slice's squared norms of the weights and of the update that `step` will apply; `step` reads their sum over the
  // shards. Parameter p of the layout has row first_parameter + p. Unused unless needs_norms().
  [[nodiscard]] virtual bool needs_norms() const { return false; }
  virtual void measure(const ShardView&, at::Tensor, const StepScalars*) const {}
  // Neighboring parameters with equal hyperparameters share one launch where possible. now->skip != 0: a no-op.
  virtual void step(const ShardView&, at::Tensor norms, const StepScalars*) const = 0;
};

// Error: an option out of range, by name.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions&);

}  // namespace partita::internal
