// The order in which blocks use their weights, and what follows for the slots: which units to prefetch, and when a slot
// becomes free. Pure.
//
//   std::vector<BlockUse> uses = {{0, Pass::forward}, {1, Pass::forward}, {1, Pass::backward}};
//   const UsePlan plan = plan_uses(units, sharding, uses);
//   plan.turns[0].prefetch                               // the units of block 1 that block 0 does not use
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "partita/shard/slots.h"

namespace partita::internal {

enum class Pass : uint8_t { forward, backward };

struct BlockUse {
  int block;
  Pass pass;
  bool reads_weights = true;  // false: backward of an embedding, which gathers nothing
};

struct UsePlan {
  struct Turn {                 // one block use
    std::vector<int> units;     // required by the block
    std::vector<int> prefetch;  // gathered under the block's compute: for the next use that needs another unit
    std::vector<int> released;  // last read before another unit takes their slot, or before the plan ends
    std::vector<int> evicted;   // subset of `released` whose slot is taken by another unit within the plan
  };
  std::vector<BlockUse> uses;
  std::vector<Turn> turns;  // [use]
  size_t head = 0;          // the first `head` uses ...
  int times = 1;            // ... run `times` times before the rest
};

// head > 0: the uses after the head must begin like the head, so that its turns are the same in every repetition.
[[nodiscard]] UsePlan plan_uses(const UnitPlan&, const Sharding&, std::vector<BlockUse> uses, size_t head = 0,
                                int times = 1);

// Gathers per step with these uses, if every trainable unit is rewritten after each step: of each unit, and of all.
[[nodiscard]] std::vector<int64_t> gathers_per_unit(const UnitPlan&, const Sharding&, const UsePlan&);
[[nodiscard]] int64_t count_gathers(const UnitPlan&, const Sharding&, const UsePlan&);

}  // namespace partita::internal
