// Where a unit's master weights, optimizer states and reduced gradients are. Pure.
//
//   place_states(plan, {.host = 0.6}, /*one_reduction=*/micro_batches == 1);
//   plan.units[u].on_host()
#pragma once
#include <cstdint>

namespace partita {

// device: in the memory of the device that computes, which also updates them. host: in host memory, updated by the CPU.
// disk: master weights and optimizer states in a file, gradients in host memory; also updated by the CPU.
enum class StatesPlace : uint8_t { device, host, disk };

// Fractions of all trained elements; the rest is on the device.
struct StatesShares {
  double host = 0, disk = 0;
};

}  // namespace partita

namespace partita::internal {

struct UnitPlan;

// Puts the last units in forward order on the host, whose gradients are complete first and whose weights are needed
// last: as many as have about the given fractions of all trained elements, and at least one; of these the last ones on
// disk. Vectors, which every layer reads, leave only with all others, or if nothing else is trained; tables of two
// pipeline stages, which must be updated alike on both, only with all. Tensor-parallel ranks decide alike.
// one_reduction: gradients leave as soon as a backward pass has made them, so that their buffers serve other units
// (Unit::shares_gradient_buffer).
void place_states(UnitPlan&, const StatesShares&, bool one_reduction);

// With several micro-batches, adds the gradients of units whose states are off the device in host memory, after each
// micro-batch; their buffers then serve other units. Not of tables of two pipeline stages.
void place_gradient_sums(UnitPlan&);

// Puts the weights in the compute dtype off the device, which gathers them into shared buffers when it uses them: of
// the last units in forward order that are frozen or whose states are off the device, as many as have about the given
// fractions of all elements, and at least one. Vectors, tables of two pipeline stages, and units that would have a
// buffer to themselves stay.
void place_weights(UnitPlan&, const StatesShares&);

}  // namespace partita::internal
