#include "partita/train/build_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/comm/world.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

Config small_config() {
  Config c;
  c.model = {.kind = ModelKind::gpt2, .layers = 2, .hidden_size = 32, .heads = 2, .vocab_size = 40, .max_length = 16};
  c.train.sequence_length = 16;
  c.train.micro_batch = 2;
  c.train.global_batch = 2;
  return c;
}

TEST(RecordsSteps, OnAGpuByOneRankWhereCallsAreShort) {
  constexpr int64_t kFew = 1000, kMany = int64_t{1} << 40;
  Config c = small_config();
  EXPECT_TRUE(records_steps(c, kFew, 1, true));
  EXPECT_FALSE(records_steps(c, kMany, 1, true));
  EXPECT_FALSE(records_steps(c, kFew, 1, false));
  EXPECT_FALSE(records_steps(c, kFew, 2, true));
  c.parallel.tensor = 2;  // whose collectives are recorded, too
  EXPECT_TRUE(records_steps(c, kFew, 2, true));
  EXPECT_FALSE(records_steps(c, kFew, 4, true));
  c.parallel.tensor = 1;
  c.parallel.pipeline = 2;
  EXPECT_FALSE(records_steps(c, kFew, 2, true));
  c.parallel.pipeline = 1;
  c.kernels.cuda_graph = Switch::on;
  EXPECT_TRUE(records_steps(c, kMany, 1, true));
  c.kernels.cuda_graph = Switch::off;
  EXPECT_FALSE(records_steps(c, kFew, 1, true));
}

// At stage 3 weights are gathered within the step, also by a rank alone: what its slots hold is no part of a graph.
TEST(RecordsSteps, NotWhereTheStepIsMoreThanKernels) {
  Config gathers = small_config(), states = small_config(), activations = small_config();
  gathers.parallel.zero_stage = 3;
  states.memory.optimizer = "host";
  activations.memory.offload_activations = 2;
  for (Config c : {gathers, states, activations}) {
    EXPECT_FALSE(records_steps(c, 1000, 1, true));
    c.kernels.cuda_graph = Switch::on;
    EXPECT_THAT(error_message([&] { (void)records_steps(c, 1000, 1, true); }),
                HasSubstr("kernels.cuda_graph is true on a GPU"));
  }
  Config c = small_config();
  c.kernels.cuda_graph = Switch::on;
  EXPECT_THAT(error_message([&] { (void)records_steps(c, 1000, 1, false); }),
              HasSubstr("on the CPU with 1 data-parallel rank,"));
  EXPECT_THAT(
      error_message([&] { (void)records_steps(c, 1000, 2, true); }),
      HasSubstr("with 2 data-parallel ranks, ZeRO stage 0: it needs a GPU, one data-parallel rank, ZeRO 0-2, no "
                "pipeline and no offload; use auto"));
  c.parallel.pipeline = 2;
  EXPECT_THAT(error_message([&] { (void)records_steps(c, 1000, 2, true); }),
              HasSubstr("with 1 data-parallel rank and a pipeline, ZeRO stage 0"));
}

TEST(ParametersPerLayer, OfALayerInTheMiddleWithItsAdapters) {
  Config c = small_config();
  const int64_t whole = parameter_count(c.model);
  for (const int64_t vocabulary : {0, 40}) {  // the tokenizer's, before it is read
    c.model.vocab_size = vocabulary;
    EXPECT_EQ(parameters_per_layer(c), 12 * 32 * 32 + (3 + 1 + 4 + 1) * 32 + 4 * 32);
  }
  c.model.layers = 1;
  EXPECT_EQ(parameter_count(c.model) + parameters_per_layer(c), whole);
  c.model = {.kind = ModelKind::llama, .layers = 3, .hidden_size = 24, .heads = 4, .kv_heads = 2, .vocab_size = 61};
  c.model.head_width = 6, c.model.ffn_hidden_size = 52, c.model.max_length = 1 << 20;
  const int64_t layer = 24 * (24 + 2 * 12) + 24 * 24 + 3 * 24 * 52 + 2 * 24;
  EXPECT_EQ(parameters_per_layer(c), layer);
  c.lora = {.rank = 3, .targets = "q_proj,v_proj"};
  EXPECT_EQ(parameters_per_layer(c), layer + 3 * (24 + 24 + 24 + 12));
}

class TrainingEngine : public testing::Test {
 protected:
  std::string error_with(const Config& c) {
    return error_message([&] { (void)build_training_engine(c, mesh_); });
  }
  World world_ = World::connect({});
  Mesh mesh_{world_};
};

TEST_F(TrainingEngine, HasNothingToOffloadOnTheCpu) {
  Config c = small_config();
  c.memory.offload_activations = 1;
  EXPECT_THAT(error_with(c), HasSubstr("memory.offload_activations on the CPU"));
  c.memory.gradients_on_host = true;
  EXPECT_THAT(error_with(c), HasSubstr("memory.gradients_on_host on the CPU"));
  c.memory.parameters = "host";
  EXPECT_THAT(error_with(c), HasSubstr("memory.parameters is \"host\" on the CPU"));
  c.memory.optimizer = "host:0.5";
  EXPECT_THAT(error_with(c), HasSubstr("memory.optimizer is \"host:0.5\" on the CPU"));
}

TEST_F(TrainingEngine, SaysWhereProductsIn8BitsDoNotFit) {
  Config c = small_config();
  c.precision.compute = DType::bf16;
  c.precision.fp8 = Fp8Recipe::current;
  EXPECT_EQ(error_with(c), "no error");
  c.train.sequence_length = 15;
  EXPECT_THAT(error_with(c), HasSubstr("30 tokens per micro-batch"));
  c.train.sequence_length = 16;
  c.model.hidden_size = 36;
  EXPECT_THAT(error_with(c), HasSubstr("model.hidden_size 36"));
  c.model.hidden_size = 48, c.model.heads = 3;
  EXPECT_EQ(error_with(c), "no error");
  c.model.ffn_hidden_size = 56, c.model.heads = 6;  // 3 heads of 8 channels, 28 channels of the MLP on each rank
  c.parallel.tensor = 2;
  EXPECT_THAT(error_with(c), HasSubstr("precision.fp8 is current with parallel.tensor 2"));
  c.model.heads = 3;  // 1 or 2 heads of 16 channels
  EXPECT_THAT(error_with(c), testing::Not(HasSubstr("no multiple of 16")));
}

}  // namespace
}  // namespace partita::internal
