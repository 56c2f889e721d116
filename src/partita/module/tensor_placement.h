// What a rank of a tensor-parallel group has of a parameter of a user's module: found by the tensor, so that operations
// (placed_operations.h) and ZeroOptimizer know it.
//
//   place(weight, part, {.spec = spec, .role = TensorRole::row, .ranks = {&mesh.tensor()}});
//   if (const TensorPlacement* placement = placement_of(weight)) ...
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "partita/comm/communicator.h"
#include "partita/module/tensor_plan.h"

namespace partita::internal {

// The ranks of a tensor-parallel group.
struct TensorRanks {
  Communicator* group = nullptr;
};

struct TensorPlacement {
  ParameterSpec spec;  // with this rank's boxes
  TensorRole role = TensorRole::replicate;
  bool gather = false;  // see TensorRule
  TensorRanks ranks;

  [[nodiscard]] bool divided() const { return spec.split != Split::none; }
  // Whether each rank computes the whole gradient, and not a part of a sum.
  [[nodiscard]] bool whole_gradient() const { return !divided() && role != TensorRole::replicate_sum; }
};

// Of the parameter itself, or, where its placement is that of divided rows or columns, also of a view of it.
// Null: none. Valid as long as the parameter.
[[nodiscard]] const TensorPlacement* placement_of(const at::Tensor&);

// Whether any parameter of this process has ever had one.
[[nodiscard]] bool any_placed();

// The parameter's values become `part`, this rank's boxes stacked by rows, and operations that read it are those of all
// ranks from now on, if it is divided. Error: the parameter has a placement already.
void place(const at::Tensor& parameter, const at::Tensor& part, TensorPlacement);

}  // namespace partita::internal
