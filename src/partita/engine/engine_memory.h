// How much memory an engine will take, by owner, before anything is allocated. Pure: Engine::memory(), which measures
// its tensors, gives the same numbers afterwards.
//
//   const EngineMemory m = predict_memory(blocks, zero_sharding(2, 8), options);
#pragma once
#include <memory>
#include <span>

#include "partita/engine/engine_options.h"
#include "partita/nn/block.h"
#include "partita/shard/sharding.h"

namespace partita {

// Arguments and errors: as plan_engine.
[[nodiscard]] EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const Sharding&,
                                          const EngineOptions&);

}  // namespace partita
