// The memory that activations and gradients share. A layer's gradients are written in backward when the activations of
// the layers above it have been read for the last time, and take their place until the update.
//
//   Arena arena = make_arena(kept_lifetimes(moments, slots, kept_bytes),
//                            gradient_lifetimes(plan, gradients, moments, micro_batches), device);
//   arena.kept[slot * blocks + block], arena.gradients[unit], arena.slices[unit]
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "partita/engine/memory_plan.h"
#include "partita/engine/step_plan.h"
#include "partita/shard/gradient_plan.h"

namespace partita::internal {

// [slot * blocks + block]: what each block keeps from its first forward to its last backward in the slot;
// kept_bytes[block].
[[nodiscard]] std::vector<Lifetime> kept_lifetimes(const Moments&, int slots, std::span<const int64_t> kept_bytes);

// [unit]: what is written in backward and read until the update: full gradients where every unit has its own, and this
// rank's slices with buffers of their own. bytes 0: there is none; or it is not shared, because backward passes of
// several micro-batches add to it, and activations come again before the update.
struct GradientLifetimes {
  std::vector<Lifetime> full, slices;
};
[[nodiscard]] GradientLifetimes gradient_lifetimes(const UnitPlan&, const GradientPlan&, const Moments&,
                                                   int micro_batches);

// Where in the arena each of them is. Pure.
struct ArenaPlan {
  std::vector<Lifetime> buffers;  // what blocks keep, full gradients, slices
  MemoryPlan memory;              // of them

  [[nodiscard]] int64_t shared_bytes() const;  // of buffers in the place of others
};
[[nodiscard]] ArenaPlan plan_arena(std::span<const Lifetime> kept, const GradientLifetimes&);

// Memory in bytes; undefined where the lifetime has none.
struct Arena {
  std::vector<at::Tensor> kept;               // [slot * blocks + block]
  std::vector<at::Tensor> gradients, slices;  // [unit]
  int64_t shared_bytes = 0;                   // of buffers in the place of others
};

[[nodiscard]] Arena make_arena(std::span<const Lifetime> kept, const GradientLifetimes&, at::Device);

}  // namespace partita::internal
