#include "partita/train/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace partita::internal {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMiB = 1 << 20;

Config small(int64_t layers = 12) {
  Config c;
  c.model = {.layers = layers, .hidden_size = 256, .heads = 4, .vocab_size = 1000, .max_length = 64};
  c.train.sequence_length = 64;
  c.train.micro_batch = 8;
  c.train.global_batch = 8;
  c.parallel.layers_per_collective = 1;
  return c;
}

TEST(MemoryTable, HasARowForEachOwner) {
  const MemoryForecast first{{{"weights", 3 * kMiB}, {"gradients", 0}, {"activations", 2 * kMiB}}, 0, 0},
      second{{{"weights", kMiB}, {"gradients", 0}, {"activations", kMiB}}, 7 * kMiB, 0};
  EXPECT_EQ(memory_table(std::vector{first}),
            "memory per rank\n"
            "  weights              3.0 MiB\n"
            "  activations          2.0 MiB\n"
            "device                 5.0 MiB\n");
  EXPECT_EQ(memory_table(std::vector{first, second}),
            "memory per rank        stage 0     stage 1\n"
            "  weights              3.0 MiB     1.0 MiB\n"
            "  activations          2.0 MiB     1.0 MiB\n"
            "device                 5.0 MiB     2.0 MiB\n"
            "host                       0 B     7.0 MiB\n");
}

TEST(MemoryTable, NamesTheBlocksOfAStage) {
  Config c = small(3);
  EXPECT_THAT(block_names(c, 0), ElementsAre("embedding", "layer 0", "layer 1", "layer 2", "head"));
  c.parallel.pipeline = 2;
  c.parallel.stages = {"2", "1"};
  EXPECT_THAT(block_names(c, 0), ElementsAre("embedding", "layer 0", "layer 1"));
  EXPECT_THAT(block_names(c, 1), ElementsAre("layer 2", "head"));
}

// A handful of moments, with the largest among them, in the order of the step.
TEST(MemoryTable, ShowsAFewMoments) {
  for (const int64_t layers : {1, 2, 3, 12, 96})
    for (const int64_t batches : {1, 4}) {
      Config c = small(layers);
      c.train.global_batch = 8 * batches;
      const MemoryTimeline timeline = forecast_timeline(c, 1, at::kCPU, 0);
      const std::string text = timeline_table(timeline, block_names(c, 0));
      const auto lines = std::ranges::count(text, '\n');
      EXPECT_GE(lines, 6);
      EXPECT_LE(lines, 10);
      EXPECT_THAT(text, HasSubstr("\n  before the first pass "));
      EXPECT_THAT(text, HasSubstr("\n  update "));
      EXPECT_EQ(text.find("  most\n"), text.rfind("  most\n"));
      EXPECT_THAT(text, HasSubstr("  most\n"));
      EXPECT_LT(text.find("  forward 0, "), text.find("  backward "));
    }
}

TEST(MemoryTable, ComparesWithWhatIsAllocated) {
  const EngineMemory all{{.weights = 4 * kMiB, .gradients = 3 * kMiB, .optimizer = 8 * kMiB}, 5 * kMiB, kMiB, 2 * kMiB};
  MemoryTimeline timeline{.allocated = all, .moments = {}};
  MemoryMoment moment{.kind = MemoryMoment::Kind::before};
  moment.in_use.weights = 4 * kMiB, moment.in_use.optimizer = 8 * kMiB;
  timeline.moments.push_back(moment);
  moment.kind = MemoryMoment::Kind::pass, moment.block = 1, moment.micro_batch = 3;
  moment.in_use.activations = 5 * kMiB;
  timeline.moments.push_back(moment);
  moment.kind = MemoryMoment::Kind::update, moment.in_use.activations = 0;
  timeline.moments.push_back(moment);
  const std::vector<std::string> names = {"embedding", "layer 0"};
  EXPECT_THAT(timeline_table(timeline, names),
              HasSubstr("allocated once, before the first step: 19.0 MiB; in use of it at most 17.0 MiB (forward 3, "
                        "layer 0), mostly states\n"));
}

}  // namespace
}  // namespace partita::internal
