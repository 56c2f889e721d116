// Squared norms of the gradients of units, each measured by itself, so that their total does not depend on when and in
// which order they were measured.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "partita/shard/layout.h"

namespace partita::internal {

class UnitSquares {
 public:
  UnitSquares(size_t units, at::Device);

  // Of these runs of the unit's slice, in place of what was measured before. The slice is on the device, or in host
  // memory.
  void measure(int unit, const at::Tensor& slice, std::span<const FlatRun> counted) const;
  // Adds the squares of all units to out [1] double, in an order that depends on their number alone. Units that were
  // never measured have 0.
  void add_to(const at::Tensor& out) const;

 private:
  at::Tensor squares_;  // [units] double
};

}  // namespace partita::internal
