// In which order blocks use their weights, and what follows from it for the slots of units: what to gather ahead, and
// when a slot is free. Pure.
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
  bool reads_weights = true;  // false: the backward of an embedding, for which nothing is gathered
};

struct UsePlan {
  struct Turn {                 // of one use
    std::vector<int> units;     // that must be there
    std::vector<int> prefetch;  // gathered while the block computes: of the next use that needs another unit
    std::vector<int> released;  // read for the last time before their slot gets another unit, or the plan ends
    std::vector<int> evicted;   // those of `released` whose slot gets another unit within the plan
  };
  std::vector<BlockUse> uses;
  std::vector<Turn> turns;  // [use]
  size_t head = 0;          // the first uses ...
  int times = 1;            // ... are taken so often before the others
};

// head > 0: the uses behind the head begin as it does, so that its turns are the same each time.
[[nodiscard]] UsePlan plan_uses(const UnitPlan&, const Sharding&, std::vector<BlockUse> uses, size_t head = 0,
                                int times = 1);

// Gathers of a step with these uses after which every trained unit is rewritten.
[[nodiscard]] int64_t count_gathers(const UnitPlan&, const Sharding&, const UsePlan&);

}  // namespace partita::internal
