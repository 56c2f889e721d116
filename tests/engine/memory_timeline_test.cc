#include "partita/engine/memory_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/engine/engine_memory.h"
#include "tests/engine/small_model.h"

namespace partita::internal {
namespace {

using Kind = MemoryMoment::Kind;

constexpr int kLayers = 5, kBlocks = kLayers + 2;

MemoryTimeline timeline(const EngineOptions& options, const Sharding& sharding = {}) {
  return memory_timeline(make_blocks(test::small_model(ModelKind::llama, 0), options.compute), sharding, options);
}

EngineOptions small() { return {.shape = {.samples = 2, .length = 13}, .width = 20, .layers_per_unit = 1}; }

void expect_allocated(const MemoryTimeline& t) {
  const EngineMemory& all = t.allocated;
  for (const MemoryMoment& m : t.moments) {
    EXPECT_LE(m.in_use.weights, all.weights);
    EXPECT_LE(m.in_use.gradients, all.gradients);
    EXPECT_EQ(m.in_use.master, all.master);
    EXPECT_EQ(m.in_use.optimizer, all.optimizer);
    EXPECT_LE(m.in_use.activations, all.activations);
    EXPECT_LE(m.in_use.activations + m.in_use.gradients, all.activations + all.gradients - all.shared);
    EXPECT_LE(m.bytes(), t.allocated_bytes());
  }
}

// Never more than there is, and each owner at some moment all of what it has.
TEST(MemoryTimeline, IsWithinWhatIsAllocated) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const int micro_batches : {1, 2, 1000})
      for (const Recompute recompute : {Recompute::none, Recompute::full})
        for (const int place : {0, 1, 2, 3}) {
          EngineOptions o = small();
          o.micro_batches = micro_batches;
          o.recompute = recompute;
          o.compute = DType::bf16;
          o.offload = {.optimizer = place == 1 ? 1 : place == 2 ? 0.4 : 0, .activations = place == 3 ? 4 : 0};
          const MemoryTimeline t = timeline(o, zero_sharding(stage, 2));
          EXPECT_EQ(t.allocated, predict_memory(make_blocks(test::small_model(ModelKind::llama, 0), o.compute),
                                                zero_sharding(stage, 2), o));
          expect_allocated(t);
          ASSERT_FALSE(HasFailure()) << "stage " << stage << ", " << micro_batches << " micro-batches, offload "
                                     << place;
          EXPECT_EQ(t.moments.size(), 2 + 2 * kBlocks * std::min(micro_batches, 2));
          const auto most = [&](int64_t EngineMemory::*owner) {
            int64_t bytes = 0;
            for (const MemoryMoment& m : t.moments) bytes = std::max(bytes, m.in_use.*owner);
            return bytes;
          };
          EXPECT_EQ(most(&EngineMemory::activations), t.allocated.activations);
          EXPECT_EQ(most(&EngineMemory::temporaries), t.allocated.temporaries);
          if (stage < 3) {
            EXPECT_EQ(most(&EngineMemory::weights), t.allocated.weights);
          }
          if (stage < 2 && place != 1 && place != 2) {
            EXPECT_EQ(most(&EngineMemory::gradients), t.allocated.gradients);
          }
        }
}

// Forward fills activations; backward gives them back and fills gradients.
TEST(MemoryTimeline, FollowsTheStep) {
  const MemoryTimeline t = timeline(small());
  ASSERT_EQ(t.moments.size(), 2 + 2 * kBlocks);
  const auto& all = t.moments;
  EXPECT_EQ(all.front().kind, Kind::before);
  EXPECT_EQ(all.front().bytes(), t.allocated.weights + t.allocated.master + t.allocated.optimizer);
  for (int b = 0; b < kBlocks; ++b) {
    const MemoryMoment &forward = all[static_cast<size_t>(1 + b)],
                       &backward = all[static_cast<size_t>(2 * kBlocks - b)];
    EXPECT_EQ(forward.block, b);
    EXPECT_EQ(forward.pass, Pass::forward);
    EXPECT_EQ(backward.block, b);
    EXPECT_EQ(backward.pass, Pass::backward);
    EXPECT_EQ(forward.in_use.activations, backward.in_use.activations) << "of this block and those before it";
    EXPECT_EQ(forward.in_use.gradients, 0);
  }
  for (int i = 1; i < kBlocks; ++i) {
    EXPECT_GE(all[static_cast<size_t>(i + 1)].in_use.activations, all[static_cast<size_t>(i)].in_use.activations);
    EXPECT_GE(all[static_cast<size_t>(kBlocks + i + 1)].in_use.gradients,
              all[static_cast<size_t>(kBlocks + i)].in_use.gradients);
  }
  EXPECT_EQ(all[kBlocks].in_use.activations, t.allocated.activations);
  EXPECT_EQ(all.back().kind, Kind::update);
  EXPECT_EQ(all.back().in_use.activations, 0);
  EXPECT_EQ(all.back().in_use.gradients, t.allocated.gradients);
  EXPECT_LT(all[t.peak()].bytes(), t.allocated.weights + t.allocated.gradients + t.allocated.master +
                                       t.allocated.optimizer + t.allocated.activations + t.allocated.temporaries);
}

// Of many identical micro-batches the first and the last; gradients stay between them, activations do not.
TEST(MemoryTimeline, NumbersMicroBatches) {
  EngineOptions o = small();
  o.micro_batches = 7;
  const MemoryTimeline t = timeline(o);
  const auto& all = t.moments;
  EXPECT_EQ(all[1].micro_batch, 0);
  EXPECT_EQ(all[2 * kBlocks].micro_batch, 0);
  EXPECT_EQ(all[2 * kBlocks + 1].micro_batch, 6);
  EXPECT_EQ(all[4 * kBlocks].micro_batch, 6);
  EXPECT_EQ(all[2 * kBlocks + 1].in_use.activations, all[1].in_use.activations);
  EXPECT_EQ(all[kBlocks].in_use.activations, t.allocated.activations);
  EXPECT_EQ(all[3 * kBlocks].in_use.activations, t.allocated.activations);
  EXPECT_EQ(all[2 * kBlocks + 1].in_use.gradients, t.allocated.gradients);
}

// A unit's gradients begin with the last of its layers; where layers share slots, they end with the first.
TEST(MemoryTimeline, OfGradientsOfUnits) {
  EngineOptions o = small();
  o.layers_per_unit = kLayers;
  const MemoryTimeline whole = timeline(o);
  const auto gradients = [](const MemoryTimeline& t, int block) {
    return t.moments[static_cast<size_t>(2 * kBlocks - block)].in_use.gradients;
  };
  const int64_t layer = gradients(timeline(small()), 3) - gradients(timeline(small()), 4);
  EXPECT_NEAR(static_cast<double>(gradients(whole, kLayers) - gradients(whole, kLayers + 1)),
              static_cast<double>(kLayers * layer), 0.02 * static_cast<double>(kLayers * layer));
  EXPECT_EQ(gradients(whole, 1), gradients(whole, kLayers));
  const MemoryTimeline shared = timeline(small(), zero_sharding(2, 2));
  for (int b = 0; b < kBlocks; ++b) EXPECT_EQ(shared.moments[static_cast<size_t>(1 + b)].in_use.gradients, 0);
  EXPECT_LT(shared.moments.back().in_use.gradients, gradients(shared, 1));
}

// With sharded weights, slots are in use while a block is computed or its weights are fetched.
TEST(MemoryTimeline, SlotsOfSharedWeights) {
  const MemoryTimeline t = timeline(small(), zero_sharding(3, 2));
  EXPECT_LT(t.moments.front().in_use.weights, t.moments[2].in_use.weights);
  EXPECT_EQ(t.moments.back().in_use.weights, t.moments.front().in_use.weights);
}

// Pipelines: the micro-batches in flight, and the sets of operands that wait for their weight gradients.
TEST(MemoryTimeline, OfAPipeline) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::zb_h1})
    for (const int rank : {0, 1}) {
      EngineOptions o = small();
      o.micro_batches = 4;
      o.pipeline = {.shape = {.schedule = schedule, .ranks = 2, .chunks = 1, .micro_batches = 4},
                    .rank = rank,
                    .chunks = {0, rank == 0 ? 3 : 4},
                    .trains_below = {rank == 1}};
      auto blocks = make_blocks(test::small_model(ModelKind::llama, 0), o.compute);
      if (rank == 0)
        blocks.resize(3);
      else
        blocks.erase(blocks.begin(), blocks.begin() + 3);
      const MemoryTimeline t = memory_timeline(blocks, {}, o);
      expect_allocated(t);
      int64_t most = 0;
      for (const MemoryMoment& m : t.moments) most = std::max(most, m.in_use.activations);
      EXPECT_EQ(most, t.allocated.activations) << static_cast<int>(schedule) << ", rank " << rank;
      EXPECT_EQ(t.moments.back().in_use.activations, 0);
    }
}

}  // namespace
}  // namespace partita::internal
