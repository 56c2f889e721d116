// What an engine decides when it is made: which parameters are gathered together, where backward ends, what is kept from
// forward to backward and where it lies. Pure.
//
//   const EnginePlan plan = plan_engine(blocks, {.ranks = 8, .few_gradients = true}, /*replicas=*/1, options);
//   plan.units.units[u], plan.keeps[b], plan.offloaded[b].slot
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partita/engine/activation_offload.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_options.h"
#include "partita/nn/block.h"
#include "partita/shard/collective_plan.h"
#include "partita/shard/units.h"

namespace partita {

struct EnginePlan {
  UnitPlan units;
  int first_trainable = 0;                // block: those below it have no backward
  std::vector<bool> backward_reads;       // [block]: its backward reads weights
  std::vector<Keep> keeps;                // [block]
  std::vector<int64_t> kept_bytes;        // [block]: of a micro-batch, from forward to backward
  std::vector<OffloadedBlock> offloaded;  // [block]
  std::vector<int64_t> arena_bytes;       // [block]: of kept_bytes what shares memory with gradients; 0: offloaded
  GradientLifetimes gradients;       // [unit], in that memory; none in inference and where gradients leave for the host
  bool states_on_host = false;       // master weights, optimizer states and gradients
  bool activations_on_host = false;  // of some blocks
};

// blocks: the first is the embedding and the last the head. sharding: of weights and gradients; replicas: ranks that hold the
// same slices. Errors: those of plan_units; states neither in fp32 nor in the compute dtype.
[[nodiscard]] EnginePlan plan_engine(std::span<const std::unique_ptr<Block>> blocks, const Sharding&, int replicas,
                                     const EngineOptions&);

}  // namespace partita
