// The promise: every ZeRO stage on any number of ranks is the single-process run.
#include <gtest/gtest.h>

#include "partita/comm/recording.h"
#include "partita/shard/collective_plan.h"
#include "tests/engine/small_model.h"
#include "tests/support/ranks.h"

namespace partita {
namespace {

using test::EngineCase;

constexpr int64_t kGlobalBatch = 12;  // divides by 1, 2, 3 and 4 ranks

struct Groups {
  std::unique_ptr<Communicator> self = test_world().group("self", {test_world().rank()});
  std::unique_ptr<Communicator> data = test_world().group("data", test_ranks());
};

std::vector<StepResult> reference(const EngineCase& like, Communicator& self, int64_t steps) {
  EngineCase one = like;
  one.stage = 0;
  one.poison = false;
  one.keep = Keep::all;
  one.samples = kGlobalBatch;
  one.micro_batches = 1;
  return test::run_steps(*test::make_engine(one, self, self), one, 0, 1, 0, steps);
}

void expect_equal(const std::vector<StepResult>& found, const std::vector<StepResult>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].loss, expected[i].loss, tolerance * expected[i].loss) << what << ", step " << i;
    EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, tolerance * expected[i].grad_norm) << what << ", step " << i;
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << what;
    EXPECT_FALSE(found[i].skipped);
  }
}

TEST(Zero, EveryStageIsTheSingleProcessRun) {
  Groups groups;
  const int ranks = groups.data->size();
  const std::vector<StepResult> expected = reference({.dropout = 0.1}, *groups.self, 20);
  EXPECT_GT(expected.front().grad_norm, 0.5);  // clipping acts
  EXPECT_LT(expected.back().loss, expected.front().loss);
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, ranks == 3 ? 4 : 3}) {
      const EngineCase c{.stage = stage,
                         .samples = static_cast<int>(kGlobalBatch) / ranks / micro_batches,
                         .micro_batches = micro_batches};
      ASSERT_EQ(c.samples * micro_batches * ranks, kGlobalBatch);
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      const std::string what = "stage " + std::to_string(stage) + ", micro-batches " + std::to_string(micro_batches);
      expect_equal(test::run_steps(*engine, c, groups.data->rank(), ranks, 0, 20), expected, 1e-5, what);
    }
}

TEST(Zero, PoisonedMemoryChangesNothing) {
  Groups groups;
  const int ranks = groups.data->size();
  for (int stage = 0; stage <= 3; ++stage)
    for (Keep keep : {Keep::all, Keep::selective, Keep::entry}) {
      EngineCase c{.stage = stage, .samples = 1, .micro_batches = 2, .keep = keep};
      const auto plain = test::make_engine(c, *groups.self, *groups.data);
      const auto expected = test::run_steps(*plain, c, groups.data->rank(), ranks, 0, 4);
      c.poison = true;
      const auto poisoned = test::make_engine(c, *groups.self, *groups.data);
      const auto found = test::run_steps(*poisoned, c, groups.data->rank(), ranks, 0, 4);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].loss, expected[i].loss) << "stage " << stage;
        EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << "stage " << stage;
      }
    }
}

// bf16 compute rounds what each stage reduces at other places; the run is the same within that rounding.
TEST(Zero, StagesAgreeInBf16) {
  Groups groups;
  const int ranks = groups.data->size();
  const std::vector<StepResult> expected = reference({.compute = DType::bf16}, *groups.self, 10);
  for (int stage = 0; stage <= 3; ++stage) {
    const EngineCase c{.stage = stage, .samples = static_cast<int>(kGlobalBatch) / ranks, .compute = DType::bf16};
    const auto engine = test::make_engine(c, *groups.self, *groups.data);
    const auto found = test::run_steps(*engine, c, groups.data->rank(), ranks, 0, 10);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].loss, expected[i].loss, 4e-3 * expected[i].loss) << "stage " << stage << ", step " << i;
      EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, 3e-2 * expected[i].grad_norm)
          << "stage " << stage << ", step " << i;
    }
  }
}

// Bytes a rank, from the plan: what a stage shards is really divided.
TEST(Zero, MemoryIsDivided) {
  Groups groups;
  const int ranks = groups.data->size();
  for (DType compute : {DType::fp32, DType::bf16})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.stage = stage, .samples = 1, .compute = compute, .dropout = 0};
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      const int64_t item = size_of(compute), shards = stage == 0 ? 1 : ranks;
      int64_t all = 0, matrices = 0, own = 0, ends = 0, largest = 0;
      for (const Unit& unit : engine->plan().units) {
        all += unit.layout.count;
        if (unit.pool == Pool::own) own += unit.layout.count;
        if (unit.pool == Pool::ends) ends += unit.layout.count;
        if (unit.pool != Pool::layers) continue;
        matrices += unit.layout.count;
        largest = std::max(largest, unit.layout.count);
      }
      EXPECT_GT(matrices, 4 * largest);
      const EngineMemory m = engine->memory();
      EXPECT_EQ(m.optimizer, 2 * 4 * all / shards);
      EXPECT_EQ(m.master, compute == DType::fp32 ? 0 : 4 * all / shards);
      // Two slots for all layers and one for the ends, beside the slices.
      EXPECT_EQ(m.weights, stage < 3 ? item * all : item * (2 * largest + ends + own + (matrices + ends) / shards));
      const int64_t slices = 4 * all / shards;
      if (stage == 0) {
        EXPECT_EQ(m.gradients, 4 * all);
      }
      if (stage == 1) {
        EXPECT_EQ(m.gradients, ranks == 1 ? 4 * all : 4 * all + slices);
      }
      if (stage >= 2) {
        EXPECT_EQ(m.gradients, item * 2 * largest + 4 * (ends + own) + slices);
      }
    }
}

// The collectives of a step are those that the plan says, and move the bytes of the units.
TEST(Zero, CollectivesOfAStepAreThePlans) {
  Groups groups;
  const int ranks = groups.data->size();
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, 3})
      for (int blocks_per_unit : {1, 2, 5}) {
        const EngineCase c{.stage = stage,
                           .samples = 1,
                           .micro_batches = micro_batches,
                           .dropout = 0,
                           .blocks_per_unit = blocks_per_unit};
        RecordingCommunicator self(*groups.self), data(*groups.data);
        const auto engine = test::make_engine(c, self, data);
        (void)test::run_steps(*engine, c, data.rank(), ranks, 0, 1);
        self.clear();
        data.clear();
        (void)test::run_steps(*engine, c, data.rank(), ranks, 1, 2);
        const RecordingCommunicator& shard = stage == 0 ? self : data;
        const Zero zero = make_zero(stage, self, data);
        const Sharding sharding{
            .ranks = zero.shard->size(), .few_weights = zero.few_weights, .few_gradients = zero.few_gradients};
        EXPECT_EQ(shard.count("all_gather"),
                  gathers_per_step(engine->plan(), sharding, engine->backward_reads(), micro_batches))
            << "stage " << stage << ", " << micro_batches << " micro-batches, " << blocks_per_unit << " blocks a unit";
        EXPECT_EQ(shard.count("reduce_scatter"), reductions_per_step(engine->plan(), sharding, micro_batches))
            << "stage " << stage;
        int64_t elements = 0;
        for (const Unit& unit : engine->plan().units) elements += unit.layout.count;
        if (stage >= 1 && (stage >= 2 || ranks > 1)) {
          EXPECT_EQ(shard.bytes("reduce_scatter"), 4 * elements * (stage >= 2 ? micro_batches : 1));
        }
        if ((stage == 1 || stage == 2) && ranks > 1) {
          EXPECT_EQ(shard.bytes("all_gather"), 4 * elements);
        }
        if (stage == 3 && blocks_per_unit == 1) {
          // Layers: all in forward, all but the two that are still there in backward and in the next forward; ends once.
          EXPECT_EQ(shard.count("all_gather"), 5 + (2 * micro_batches - 1) * 3 + 1 + (ranks > 1 ? 1 : 0));
        }
        // Valid tokens before, squares and loss after; at stage 0 the gradients of each unit.
        const int64_t sums = stage == 0 && ranks > 1 ? static_cast<int64_t>(engine->plan().units.size()) : 0;
        EXPECT_EQ(data.count("all_reduce"), 2 + sums);
      }
}

// 5 + 5 steps with everything handed over to a new engine equal 10 steps, bit for bit.
TEST(Zero, ContinuesBitForBit) {
  Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (DType compute : {DType::fp32, DType::bf16})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.stage = stage, .samples = 2, .compute = compute};
      const auto whole = test::make_engine(c, *groups.self, *groups.data),
                 first = test::make_engine(c, *groups.self, *groups.data),
                 second = test::make_engine(c, *groups.self, *groups.data);
      const auto expected = test::run_steps(*whole, c, rank, ranks, 0, 10);
      (void)test::run_steps(*first, c, rank, ranks, 0, 5);
      const auto from = first->owned_runs(), to = second->owned_runs();
      ASSERT_EQ(from.size(), to.size());
      for (size_t i = 0; i < from.size(); ++i)
        for (size_t k = 0; k < from[i].values.size(); ++k) to[i].values[k].copy_(from[i].values[k]);
      second->publish_weights();
      const auto found = test::run_steps(*second, c, rank, ranks, 5, 10);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(found[i].loss, expected[i + 5].loss) << "stage " << stage;
        EXPECT_EQ(found[i].grad_norm, expected[i + 5].grad_norm) << "stage " << stage;
      }
    }
}

}  // namespace
}  // namespace partita
