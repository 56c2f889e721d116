#include "partita/train/stages.h"

#include <gmock/gmock.h>

#include <numeric>

#include "partita/models/flops.h"
#include "partita/models/model.h"
#include "partita/train/build_model.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

Config config(int64_t layers, int64_t pipeline, int64_t vocabulary) {
  Config c;
  c.model = {.layers = layers, .hidden_size = 24, .heads = 3, .vocab_size = vocabulary, .max_length = 8};
  c.train.sequence_length = 8;
  c.train.micro_batch = 1;
  c.train.global_batch = 8;
  c.parallel.pipeline = pipeline;
  return c;
}

// The embedding takes no time, the head as much as the layers that have its FLOPs.
TEST(Stages, TakeAboutEqualTimes) {
  EXPECT_THAT(stage_blocks(config(8, 2, 10)), ElementsAre(0, 5, 10));  // embedding and 4 layers; 4 layers and head
  EXPECT_THAT(stage_blocks(config(8, 4, 10)), ElementsAre(0, 3, 5, 7, 10));
  const std::vector<int> heavy_head = stage_blocks(config(8, 2, 3000));
  EXPECT_GT(heavy_head[1], 6);
  Config c = config(6, 2, 10);
  c.parallel.schedule = PipelineSchedule::interleaved, c.parallel.virtual_stages = 3;
  EXPECT_THAT(stage_blocks(c), ElementsAre(0, 2, 3, 4, 5, 6, 8));
}

// The embedding is in front of the first stage's layers, the head behind the last one's.
TEST(Stages, MayBeGivenByHand) {
  Config c = config(7, 2, 10);
  c.parallel.stages = {"2", "5"};
  EXPECT_THAT(stage_blocks(c), ElementsAre(0, 3, 9));
  c.parallel.schedule = PipelineSchedule::zbv;
  c.parallel.stages = {"0", "3", "4", "0"};
  EXPECT_THAT(stage_blocks(c), ElementsAre(0, 1, 4, 8, 9));
}

// Of two tensor-parallel ranks, each with all of a layer: of the six matmuls of two linears, those of all rows take
// twice the time, but not those of weight gradients, and of the residual stream only if its rows are not divided.
TEST(Stages, CountWhatEveryTensorRankComputes) {
  Config c = config(3, 1, 61);
  c.parallel.tensor = 2;
  const std::vector<double> divided = block_times(c);
  EXPECT_THAT(divided, ElementsAre(0, 1, 1, 1, testing::DoubleEq(divided[4])));
  c.parallel.plan = {{"layers.0", "replicate"}, {"layers.1.mlp", "replicate"}, {"embedding", "replicate"}};
  ModelConfig without_head = c.model;
  without_head.vocab_size = 1;
  // FLOPs of a layer per token, of which attention itself and the matrices of the MLP.
  const double layer = training_flops(without_head, 8, AttentionCount::causal) / 3, core = 6 * 24 * 8,
               mlp = 48 * 24 * 24;
  for (const Switch sequence : {Switch::on, Switch::off}) {
    c.parallel.sequence = sequence;
    const double more = sequence == Switch::on ? 4 / 3.0 : 5 / 3.0;  // (2 x 2 + 2 + 2) / 6, (2 x 2 + 2 x 2 + 2) / 6
    const std::vector<double> times = block_times(c);
    EXPECT_NEAR(times[1], (more * (layer - core) + 2 * core) / layer, 1e-9);
    EXPECT_NEAR(times[2], (layer + (more - 1) * mlp) / layer, 1e-9);
    EXPECT_EQ(times[3], 1);
    EXPECT_NEAR(times[4], (sequence == Switch::on ? 1 : 5 / 3.0) * divided[4], 1e-9);
  }
}

// The ranks' blocks are those of the model, each once.
TEST(Stages, DivideTheModel) {
  for (const auto& [layers, pipeline, chunks] : {std::tuple(5, 2, 1), {7, 3, 2}, {9, 4, 1}, {6, 2, 3}}) {
    Config c = config(layers, pipeline, 31);
    if (chunks > 1) c.parallel.schedule = PipelineSchedule::interleaved, c.parallel.virtual_stages = chunks;
    std::multiset<std::string> found, expected;
    const auto add = [](std::multiset<std::string>& names, const std::vector<std::unique_ptr<Block>>& blocks) {
      for (const auto& block : blocks) names.insert(block->parameters().front().name);
    };
    add(expected, make_blocks(c.model, DType::fp32));
    for (int rank = 0; rank < pipeline; ++rank) {
      const auto own = take_stage(make_blocks(c.model, DType::fp32), c, rank);
      add(found, own);
      const PipelineStage stage = training_stage(c, pipeline, rank, [](const ParameterSpec&) { return false; });
      EXPECT_EQ(stage.chunks.size(), static_cast<size_t>(chunks) + 1);
      EXPECT_EQ(stage.chunks.back(), std::ssize(own));
      EXPECT_EQ(stage.trains_below.front(), rank > 0);
      EXPECT_EQ(stage.tied, "embedding.token.weight");
      EXPECT_EQ(stage.shape.micro_batches, 8);
    }
    EXPECT_EQ(found, expected);
  }
}

// memory.recompute_full_layers counts layers of the model, wherever they are.
TEST(Stages, ShareTheFirstLayers) {
  Config c = config(8, 2, 10);  // layers 0-3, then 4-7
  EXPECT_EQ(own_layers_below(c, 0, 3), 3);
  EXPECT_EQ(own_layers_below(c, 1, 3), 0);
  EXPECT_EQ(own_layers_below(c, 0, 6), 4);
  EXPECT_EQ(own_layers_below(c, 1, 6), 2);
  EXPECT_EQ(own_layers_below(c, 1, 8), 4);
  EXPECT_EQ(own_layers_below(config(8, 1, 10), 0, 6), 6);
  c.memory.recompute_full_layers = 6;
  EXPECT_EQ(training_options(c, 2, at::kCPU, {.pipeline = 1}).full_recompute_layers, 2);
}

TEST(Stages, KnowWhatIsTrainedBelow) {
  const Config c = config(4, 2, 31);
  const auto lower = [](const ParameterSpec& p) { return !p.name.starts_with("layers.3.") && p.name != "head.weight"; };
  EXPECT_FALSE(training_stage(c, 2, 1, lower).trains_below.front());
  const auto head = [](const ParameterSpec& p) { return !p.name.starts_with("layers.0."); };
  EXPECT_TRUE(training_stage(c, 2, 1, head).trains_below.front());
  EXPECT_FALSE(training_stage(config(4, 1, 31), 1, 0, head).pipelined());
}

}  // namespace
}  // namespace partita::internal
