// What an engine decides when it is made: which parameters are gathered together, in which order blocks use them, where
// backward ends, what is kept from forward to backward and in which memory. Pure.
//
//   const EnginePlan plan = plan_engine(blocks, zero_sharding(2, 8), options);
//   plan.units.units[u], plan.keeps[b], plan.training.turns[i].prefetch
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partita/engine/activation_offload.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_options.h"
#include "partita/engine/step_plan.h"
#include "partita/nn/block.h"
#include "partita/shard/use_plan.h"

namespace partita::internal {

struct EnginePlan {
  UnitPlan units;
  std::vector<BlockKind> kinds;  // [block]
  StepBlocks blocks;             // where backward ends, and what it reads
  StepActions step;              // the actions of a training step
  int slots = 1;                 // of activations, in training
  UsePlan training, forward;     // of a step's actions, and of one forward pass

  std::vector<Keep> keeps;                // [block]
  std::vector<int64_t> kept_bytes;        // [block]: of a micro-batch, from forward to backward
  std::vector<OffloadedBlock> offloaded;  // [block]
  std::vector<Lifetime> kept;             // [slot * blocks + block]: in the arena; bytes 0: offloaded
  GradientLifetimes gradients;            // [unit]: in the arena; none in inference and where gradients are offloaded
  bool states_on_host = false;            // master weights, optimizer states and gradients
  bool activations_on_host = false;       // of some blocks
};

[[nodiscard]] ParameterOptions parameter_options(const EnginePlan&, const EngineOptions&);

// Errors: those of plan_units and activation_slots; states neither in fp32 nor in the compute dtype; offloaded
// activations or delayed fp8 scales with several slots of activations.
[[nodiscard]] EnginePlan plan_engine(std::span<const std::unique_ptr<Block>> blocks, const Sharding&,
                                     const EngineOptions&);

}  // namespace partita::internal
