// Memory and communication of ZeRO: bytes per rank, and the collectives of a step.
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/comm/recording.h"
#include "partita/shard/gradient_plan.h"
#include "partita/shard/use_plan.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::Groups;

// Bytes a rank, from the plan: what a stage shards is really divided.
TEST(Zero, MemoryIsDivided) {
  Groups groups;
  const int ranks = groups.data->size();
  struct Precision {
    DType compute, states;
    bool fp32_gradients;
  };
  for (const auto& [compute, states, fp32_gradients] :
       {Precision{DType::fp32, DType::fp32, false}, Precision{DType::bf16, DType::fp32, false},
        Precision{DType::bf16, DType::bf16, false}, Precision{DType::bf16, DType::fp32, true}})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.stage = stage,
                         .samples = 1,
                         .fp32_gradients = fp32_gradients,
                         .compute = compute,
                         .states = states,
                         .dropout = 0};
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      const int64_t item = size_of(compute), state = size_of(states), shards = stage == 0 ? 1 : ranks;
      int64_t all = 0, matrices = 0, own = 0, ends = 0, largest = 0;
      for (const Unit& unit : engine->plan().units) {
        all += unit.layout.count;
        if (unit.pool == BufferPool::persistent) own += unit.layout.count;
        if (unit.pool == BufferPool::embedding_and_head) ends += unit.layout.count;
        if (unit.pool != BufferPool::layers) continue;
        matrices += unit.layout.count;
        largest = std::max(largest, unit.layout.count);
      }
      EXPECT_GT(matrices, 4 * largest);
      const EngineMemory m = engine->memory();
      EXPECT_EQ(m.optimizer, 2 * state * all / shards);
      EXPECT_EQ(m.master, compute == states ? 0 : 4 * all / shards);
      // Two slots for all layers and one for the ends, and slices where gathers do not round from the master weights.
      const int64_t slots = 2 * largest + ends + own, held = compute == states ? (matrices + ends) / shards : 0;
      EXPECT_EQ(m.weights, item * (stage < 3 ? all : slots + held));
      const int64_t written = fp32_gradients ? 4 : item;
      const int64_t slices = (stage < 2 ? 4 * all : written * matrices + 4 * (ends + own)) / shards;
      if (stage < 2 && ranks == 1) {  // nothing is summed
        EXPECT_EQ(m.gradients, written * matrices + 4 * (ends + own));
      } else if (stage < 2) {
        EXPECT_EQ(m.gradients, stage == 0 ? 4 * all : 4 * all + slices);
      }
      if (stage >= 2) {
        EXPECT_EQ(m.gradients, written * 2 * largest + 4 * (ends + own) + slices);
      }
    }
}

// The collectives of a step are those that the plan says, and move the bytes of the units.
TEST(Zero, CollectivesOfAStepAreThePlans) {
  Groups groups;
  const int ranks = groups.data->size();
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, 3})
      for (int layers_per_unit : {1, 2, 5}) {
        const EngineCase c{.stage = stage,
                           .samples = 1,
                           .micro_batches = micro_batches,
                           .dropout = 0,
                           .layers_per_unit = layers_per_unit};
        RecordingCommunicator self(*groups.self), data(*groups.data);
        const auto engine = test::make_engine(c, self, data);
        (void)test::run_steps(*engine, c, data.rank(), ranks, 0, 1);
        self.clear();
        data.clear();
        (void)test::run_steps(*engine, c, data.rank(), ranks, 1, 2);
        const RecordingCommunicator& shard = stage == 0 ? self : data;
        const Zero zero = make_zero(stage, self, data);
        const GradientPlan gradients = plan_gradients(engine->plan(), zero.sharding, micro_batches);
        EXPECT_EQ(shard.count("all_gather"), count_gathers(engine->plan(), zero.sharding, engine->uses()))
            << "stage " << stage << ", " << micro_batches << " micro-batches, " << layers_per_unit
            << " layers per unit";
        EXPECT_EQ(shard.count("reduce_scatter"), count_reductions(engine->plan(), gradients, micro_batches))
            << "stage " << stage;
        int64_t elements = 0;
        for (const Unit& unit : engine->plan().units) elements += unit.layout.count;
        if (stage >= 1 && (stage >= 2 || ranks > 1)) {
          EXPECT_EQ(shard.bytes("reduce_scatter"), 4 * elements * (stage >= 2 ? micro_batches : 1));
        }
        if ((stage == 1 || stage == 2) && ranks > 1) {
          EXPECT_EQ(shard.bytes("all_gather"), 4 * elements);
        }
        if (stage == 3 && layers_per_unit == 1) {
          // Layers: all in forward, all but the two that are still there in backward and in the next forward; ends
          // once.
          EXPECT_EQ(shard.count("all_gather"), 5 + (2 * micro_batches - 1) * 3 + 1 + (ranks > 1 ? 1 : 0));
        }
        // Valid tokens before, squares and loss after; at stage 0 the gradients of each unit.
        const int64_t sums = stage == 0 && ranks > 1 ? static_cast<int64_t>(engine->plan().units.size()) : 0;
        EXPECT_EQ(data.count("all_reduce"), 2 + sums);
      }
}

// What is frozen is gathered again only where another unit has taken its slot.
TEST(Zero, FrozenUnitsAreGatheredAsThePlanSays) {
  Groups groups;
  for (int stage : {1, 3})
    for (int micro_batches : {1, 2})
      for (const char* frozen : {"layers.0.", "layers.", "embedding."}) {
        const EngineCase c{.tied_head = TiedHead::no,
                           .frozen = [frozen](const ParameterSpec& p) { return p.name.starts_with(frozen); },
                           .stage = stage,
                           .samples = 1,
                           .micro_batches = micro_batches,
                           .dropout = 0};
        RecordingCommunicator self(*groups.self), data(*groups.data);
        const auto engine = test::make_engine(c, self, data);
        (void)test::run_steps(*engine, c, data.rank(), data.size(), 0, 1);
        data.clear();
        (void)test::run_steps(*engine, c, data.rank(), data.size(), 1, 2);
        EXPECT_EQ(data.count("all_gather"),
                  count_gathers(engine->plan(), make_zero(stage, self, data).sharding, engine->uses()))
            << "stage " << stage << ", " << frozen << "* frozen, " << micro_batches << " micro-batches";
      }
}

}  // namespace
}  // namespace partita::internal
