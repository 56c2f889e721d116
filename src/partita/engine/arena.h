// Memory shared by activations and gradients. When backward writes a layer's gradients, the activations of the layers
// above are dead; the gradients take their place until the update.
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

// [slot * blocks + block]: saved activations live from the block's first forward to its last use in the slot.
// kept_bytes[block]; none for a block that the slot is not used by.
[[nodiscard]] std::vector<Lifetime> kept_lifetimes(const Moments&, int slots, std::span<const int64_t> kept_bytes);

// [unit]: buffers written in backward and read until the update: full gradients if every unit has its own buffer, and
// this rank's slices that have their own. bytes 0: no such buffer, or not placed in the arena: because several
// micro-batches accumulate into it and activations return before the update, or because it leaves for the host at once.
struct GradientLifetimes {
  std::vector<Lifetime> full, slices;
};
[[nodiscard]] GradientLifetimes gradient_lifetimes(const UnitPlan&, const GradientPlan&, const Moments&,
                                                   int micro_batches);

// Offsets in the arena. Pure.
struct ArenaPlan {
  std::vector<Lifetime> buffers;  // saved activations, full gradients, slices
  size_t kept = 0, units = 0;     // number of the first; of each of the others
  MemoryPlan memory;              // their offsets

  [[nodiscard]] int64_t shared_bytes() const;  // of buffers that overlap others
  // [slot * blocks + block]: units whose slices, or full gradients where these are the slices, overlap what the block
  // saves: its forward pass overwrites what their updates read.
  [[nodiscard]] std::vector<std::vector<int>> gradients_under() const;
};
[[nodiscard]] ArenaPlan plan_arena(std::span<const Lifetime> kept, const GradientLifetimes&);

// Byte tensors; undefined where the lifetime has no bytes.
struct Arena {
  std::vector<at::Tensor> kept;                   // [slot * blocks + block]
  std::vector<at::Tensor> gradients, slices;      // [unit]
  int64_t shared_bytes = 0;                       // of buffers that overlap others
  std::vector<std::vector<int>> gradients_under;  // see ArenaPlan
};

[[nodiscard]] Arena make_arena(std::span<const Lifetime> kept, const GradientLifetimes&, at::Device);

}  // namespace partita::internal
