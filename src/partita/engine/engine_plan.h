// Decisions made when an engine is constructed: the grouping of parameters into units, the order in which blocks use
// them, where backward ends, and what is saved from forward to backward and where. Pure.
//
//   const EnginePlan plan = plan_engine(blocks, zero_sharding(2, 8), options);
//   plan.units.units[u], plan.recompute[b], plan.training.turns[i].prefetch
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
  std::vector<BlockKind> kinds;         // [block]
  StepBlocks blocks;                    // where backward ends, and which blocks read weights in it
  StepActions step;                     // the actions of a training step
  int slots = 1;                        // activation slots in training
  UsePlan training, forward;            // for the actions of a step; for one forward pass
  std::vector<Action> forward_actions;  // of one micro-batch, without backward
  // With weight gradients in passes of their own, gradients are reduced when they are complete: until then they are
  // whole on every rank.
  Sharding sharding;
  std::vector<int64_t> open_bytes;  // [set * blocks + block]: operands of open weight gradients
  int handover_buffers = 0;         // for what passes between pipeline stages

  std::vector<BlockRecompute> recompute;  // [block]
  std::vector<int64_t> kept_bytes;        // [block]: saved bytes per micro-batch
  OffloadPlan offload;                    // of saved activations
  std::vector<Lifetime> kept;             // [slot * blocks + block]: in the arena; bytes 0: offloaded
  GradientLifetimes gradients;            // [unit]: in the arena; empty for inference; 0 bytes: on the host
  bool parameters_off_device = false;     // weights or optimizer states of some units
  bool updates_early = false;             // of some units, by the host
  bool activations_on_host = false;       // for some blocks
};

[[nodiscard]] ParameterOptions parameter_options(const EngineOptions&);

// Errors: those of plan_units, activation_slots and check_shares; states in neither fp32 nor the compute dtype;
// activations or sums of gradients on the host with delayed weight gradients; early updates with LAMB.
[[nodiscard]] EnginePlan plan_engine(std::span<const std::unique_ptr<Block>> blocks, const Sharding&,
                                     const EngineOptions&);

}  // namespace partita::internal
