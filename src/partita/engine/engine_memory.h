// How much memory an engine will take, by owner, before anything is allocated. Pure: Engine::memory(), which measures its
// tensors, gives the same numbers afterwards.
//
//   const EngineMemory m = predict_memory(blocks, {.ranks = 8, .few_gradients = true}, /*replicas=*/1, options);
#pragma once
#include <memory>
#include <span>

#include "partita/engine/engine_options.h"
#include "partita/nn/block.h"
#include "partita/shard/collective_plan.h"

namespace partita {

// Arguments and errors: as plan_engine.
[[nodiscard]] EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const Sharding&, int replicas,
                                          const EngineOptions&);

}  // namespace partita
