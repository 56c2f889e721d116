#include "partita/engine/activation_offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace partita::internal {
namespace {

// Passes of several micro-batches in any order: a backward finds what its forward saved, in its buffer, and what
// leaves is on the host before the buffer is written again.
TEST(ActivationOffloadPlan, ABackwardFindsWhatItsForwardSaved) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const int blocks = 2 + static_cast<int>(random() % 12), slots = 1 + static_cast<int>(random() % 4);
    const int frozen = static_cast<int>(random() % static_cast<unsigned>(blocks));
    std::vector<BlockRecompute> recompute(static_cast<size_t>(blocks), Recompute::full);
    std::fill_n(recompute.begin(), frozen, BlockRecompute());
    const int layers = static_cast<int>(random() % 12);
    std::vector<BlockKind> kinds(recompute.size(), BlockKind::layer);
    kinds.front() = BlockKind::embedding, kinds.back() = BlockKind::head;
    // A slot whose forward has been goes backward, and another one may come in between.
    std::vector<SlotUse> uses;
    std::vector<bool> saved(static_cast<size_t>(slots), false);
    for (int n = 0; n < 12 || std::ranges::find(saved, true) != saved.end(); ++n) {
      const auto slot = random() % static_cast<unsigned>(slots);
      if (!saved[slot] && n >= 12) continue;
      saved[slot] = !saved[slot];
      for (int i = 0; i < blocks; ++i) {
        const int b = saved[slot] ? i : blocks - 1 - i;
        if (saved[slot] || b >= frozen)
          uses.push_back({static_cast<int>(slot), {b, saved[slot] ? Pass::forward : Pass::backward}});
      }
    }
    const OffloadPlan plan = plan_activation_offload(recompute, kinds, layers, slots, uses, 0, 1);
    int offloaded = 0;
    for (int b = 0; b < blocks; ++b) {
      const int buffer = plan.buffer[static_cast<size_t>(b)];
      if (buffer < 0) continue;
      EXPECT_TRUE(b > 0 && b + 1 < blocks && b >= frozen);
      EXPECT_EQ(buffer, offloaded++ % 2) << "layers alternate";
    }
    EXPECT_EQ(offloaded, std::min(layers, std::max(0, blocks - 1 - std::max(frozen, 1))));
    using Key = std::pair<int, int>;
    std::array<Key, 2> holds = {Key(-1, -1), Key(-1, -1)};
    std::set<Key> on_host;
    for (const OffloadUse& use : plan.uses) {
      const auto buffer = static_cast<size_t>(plan.buffer[static_cast<size_t>(use.block)]);
      const Key key(use.slot, use.block);
      if (use.pass == Pass::forward) {
        EXPECT_TRUE(holds[buffer].first < 0 || on_host.contains(holds[buffer])) << "overwritten before it has left";
        EXPECT_EQ(use.overwrites >= 0, holds[buffer].first >= 0);
        holds[buffer] = key;
        if (use.leaves) on_host.insert(key);
      } else {
        EXPECT_EQ(holds[buffer], key) << "not there when its backward begins";
        holds[buffer] = {-1, -1};
        on_host.erase(key);
      }
      if (use.next < 0) continue;
      const OffloadUse& next = plan.uses[static_cast<size_t>(use.next)];
      EXPECT_TRUE(next.returns && on_host.contains({next.slot, next.block}));
      EXPECT_TRUE(holds[buffer].first < 0 || on_host.contains(holds[buffer]));
      holds[buffer] = {next.slot, next.block};
    }
    for (size_t k = 0; k < plan.leaves.size(); ++k) {
      const Key key(static_cast<int>(k) / blocks, static_cast<int>(k) % blocks);
      EXPECT_EQ(plan.leaves[k], std::ranges::any_of(plan.uses, [&](const OffloadUse& use) {
                  return use.leaves && Key(use.slot, use.block) == key;
                }));
    }
  }
}

}  // namespace
}  // namespace partita::internal
