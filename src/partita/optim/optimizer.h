// How slices of units are updated: one interface for AdamW, SGD and LAMB.
//
//   std::unique_ptr<Optimizer> optimizer = make_optimizer({.kind = OptimizerKind::lamb});
//   view.states = optimizer->make_states(layout.slice_count(), DType::fp32);                // zero
//   if (optimizer->needs_norms()) optimizer->measure(view, norms, now);    // all units, then a sum over the shards
//   optimizer->step(view, norms, now);
//
// Formulas, dtypes and rounding are those of ops/adamw.h, ops/sgd.h and ops/lamb.h.
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
  std::vector<Segment> segments;  // what lies in the slice (slice_segments)
  int first_parameter = 0;        // of the layout, in the table of norms
  at::Tensor master;              // [slice] fp32, or bf16: then updated with stochastic rounding
  at::Tensor gradient;            // [slice] fp32, or half precision where nothing was summed
  // [slice] in the compute dtype; master itself where that is the same; undefined where nobody reads it.
  at::Tensor weight;
  std::vector<at::Tensor> states;  // [slice] each, in the dtype of master
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // As checkpoints call them: "adamw.m", "adamw.v"; "sgd.momentum", none at momentum 0; "lamb.m", "lamb.v".
  [[nodiscard]] virtual std::span<const std::string> state_names() const = 0;
  [[nodiscard]] std::vector<at::Tensor> make_states(int64_t count, DType, at::Device = at::kCPU) const;

  // Norms of whole parameters, of which a slice has runs: `measure` adds into norms [parameters, 2] double, 0 before,
  // what this slice has of the squared norms of weight and of the update that `step` will make; summed over the shards
  // it is what `step` reads. Parameter p of the layout has row first_parameter + p. Not read without needs_norms().
  [[nodiscard]] virtual bool needs_norms() const { return false; }
  virtual void measure(const ShardView&, at::Tensor, const StepScalars*) const {}
  // One launch over neighbours with the same hyper-parameters where possible. now->skip != 0: nothing changes.
  virtual void step(const ShardView&, at::Tensor norms, const StepScalars*) const = 0;
};

// Error: an option out of its range, by name.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions&);

}  // namespace partita::internal
