// What is in use of an engine's memory at each moment of a training step. Pure.
//
//   const MemoryTimeline timeline = memory_timeline(blocks, zero_sharding(2, 8), options);
//   timeline.moments[timeline.peak()]        // the block and pass with the most memory in use
//
// An engine allocates its memory once, when it is constructed, so that the allocated amount is the same at all moments.
// What is in use at the peak tells which owners make it that large.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partita/engine/engine_options.h"
#include "partita/nn/block.h"
#include "partita/shard/use_plan.h"

namespace partita::internal {

// While a block is computed, or before the first pass, or the update after the last one.
struct MemoryMoment {
  enum class Kind : uint8_t { before, pass, update };
  Kind kind = Kind::pass;
  int block = -1;  // of this rank
  Pass pass = Pass::forward;
  int micro_batch = 0;
  EngineMemory in_use;  // bytes; `shared` is 0: memory in use has one owner

  [[nodiscard]] int64_t bytes() const;  // of the device
};

struct MemoryTimeline {
  EngineMemory allocated;
  // Before the first pass, one for each block and pass, the update. Of identical micro-batches, the first and the last.
  std::vector<MemoryMoment> moments;

  [[nodiscard]] int64_t allocated_bytes() const;  // on the device
  [[nodiscard]] size_t peak() const;              // the first of the moments with the most memory in use
};

// Arguments and errors: see plan_engine. The options are of training.
[[nodiscard]] MemoryTimeline memory_timeline(std::span<const std::unique_ptr<Block>> blocks, const Sharding&,
                                             const EngineOptions&);

}  // namespace partita::internal
