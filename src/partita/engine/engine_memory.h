// Predicts the memory of an engine by owner before anything is allocated. Pure. Engine::memory(), which measures the
// allocated tensors, returns the same numbers.
//
//   const EngineMemory m = predict_memory(blocks, zero_sharding(2, 8), options);
#pragma once
#include <memory>
#include <span>

#include "partita/engine/engine_options.h"
#include "partita/engine/engine_plan.h"
#include "partita/nn/block.h"
#include "partita/shard/sharding.h"

namespace partita {

// Arguments and errors: see plan_engine.
[[nodiscard]] EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const Sharding&,
                                          const EngineOptions&);

namespace internal {

// The same of a plan that was made with these blocks and options.
[[nodiscard]] EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const EnginePlan&,
                                          const EngineOptions&);

}  // namespace internal
}  // namespace partita
