// Where a unit's master weights, optimizer states and reduced gradients are. Pure.
//
//   place_states(plan, 0.6, /*one_reduction=*/micro_batches == 1);
//   plan.units[u].on_host()
#pragma once
#include <cstdint>

namespace partita {

// device: beside the weights, and updated there. host: in host memory, updated by the CPU.
enum class StatesPlace : uint8_t { device, host };

}  // namespace partita

namespace partita::internal {

struct UnitPlan;

// Puts units whose slices have about `host` of all trained elements on the host: the last ones in forward order, whose
// gradients are complete first and whose weights are needed last. 1: all; vectors, which every layer reads, leave only
// with all others. one_reduction: gradients leave as soon as a backward pass has made them, so that their buffers serve
// other units (Unit::shares_gradient_buffer).
void place_states(UnitPlan&, double host, bool one_reduction);

}  // namespace partita::internal
