// The memory that activations and gradients share. A layer's gradients are written in backward when the activations of the
// layers above it have been read for the last time, and lie in their place until the update.
//
//   Arena arena = make_arena(Activations::kept_bytes(blocks, shape, keeps), gradient_lifetimes(plan, sharding, 1), device);
//   arena.kept[block], arena.gradients[unit], arena.slices[unit]
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "partita/engine/memory_plan.h"
#include "partita/shard/collective_plan.h"

namespace partita {

// Moments of a step of `blocks` blocks.
[[nodiscard]] inline int forward_moment(int block) { return block; }
[[nodiscard]] inline int backward_moment(int block, int blocks) { return 2 * blocks - 1 - block; }
[[nodiscard]] inline int update_moment(int blocks) { return 2 * blocks; }

// What is written in backward and read until the update, by unit: full gradients where every unit has its own, and this
// rank's slices where they are not the same. bytes 0: there is none; or it may not be shared, because several micro-batches
// add to it, and activations come again before the update.
struct GradientLifetimes {
  std::vector<Lifetime> full, slices;
};
[[nodiscard]] GradientLifetimes gradient_lifetimes(const UnitPlan&, const Sharding&, int micro_batches);

// Where in the arena each of them lies. Pure.
struct ArenaPlan {
  std::vector<Lifetime> buffers;  // what blocks keep, full gradients, slices
  MemoryPlan memory;              // of them

  [[nodiscard]] int64_t shared_bytes() const;  // that lie in the place of others
};
[[nodiscard]] ArenaPlan plan_arena(std::span<const int64_t> kept_bytes, const GradientLifetimes&);

// Memory in bytes; undefined where the lifetime has none.
struct Arena {
  std::vector<at::Tensor> kept;               // [block]
  std::vector<at::Tensor> gradients, slices;  // [unit]
  int64_t shared_bytes = 0;                   // that lie in the place of others
};

// kept_bytes[b]: what block b keeps from its forward to its backward.
[[nodiscard]] Arena make_arena(std::span<const int64_t> kept_bytes, const GradientLifetimes&, at::Device);

}  // namespace partita
