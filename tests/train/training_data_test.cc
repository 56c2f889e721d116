#include "partita/train/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "partita/comm/world.h"
#include "partita/data/indexed_writer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/small_prompts.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

class TrainingDataTest : public testing::Test {
 protected:
  TemporaryDirectory folder_;
};

struct Outcome {
  StepResult result;
  std::vector<float> weights;  // after the step
};

// One step over one epoch of the file, as one batch.
Outcome epoch_step(Config c, World& world, bool packed) {
  const Mesh mesh(world);
  c.data.packing = packed;
  c.train.micro_batch = c.train.global_batch = TrainingData(c, 0, 1).examples();
  TrainingData data(c, 0, 1);
  const auto engine = build_training_engine(c, mesh);
  engine->initialize(5);
  Outcome outcome{.result = engine->step(data.training(0), {.learning_rate = 0.1F, .clip = 0}), .weights = {}};
  for (const OwnedBox& run : engine->owned_boxes()) {
    const float* values = run.values[0].const_data_ptr<float>();
    outcome.weights.insert(outcome.weights.end(), values, values + run.box.count());
  }
  return outcome;
}

// Loss, tokens, gradient norm and the weights after a step: packed examples are as if each were alone.
TEST_F(TrainingDataTest, PackedExamplesTrainAsThoseAlone) {
  World world = World::connect({});
  write_file(folder_ / "a.jsonl", test::small_prompts(40));
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    Config c = test::small_prompt_config(folder_ / "a.jsonl", kind);
    c.optimizer.kind = OptimizerKind::sgd;
    const Outcome alone = epoch_step(c, world, false), packed = epoch_step(c, world, true);
    EXPECT_GT(alone.result.tokens, 150);
    EXPECT_EQ(alone.result.tokens, packed.result.tokens);
    EXPECT_NEAR(alone.result.loss, packed.result.loss, 1e-6 * alone.result.loss);
    EXPECT_NEAR(alone.result.grad_norm, packed.result.grad_norm, 1e-5 * alone.result.grad_norm);
    ASSERT_EQ(alone.weights.size(), packed.weights.size());
    for (size_t i = 0; i < alone.weights.size(); ++i) ASSERT_NEAR(alone.weights[i], packed.weights[i], 1e-6);
    // Examples that see each other are something else.
    c.data.separate_documents = Switch::off;
    EXPECT_GT(std::abs(epoch_step(c, world, true).result.loss - alone.result.loss), 1e-4);
  }
}

TEST_F(TrainingDataTest, PromptsAreSplitOrHaveAFileForValidation) {
  write_file(folder_ / "a.jsonl", test::small_prompts(40));
  write_file(folder_ / "b.jsonl", "{\"prompt\": \"a\", \"completion\": \"zzz\"}\n");
  Config c = test::small_prompt_config(folder_ / "a.jsonl", ModelKind::gpt2);
  c.eval.every = 1;
  c.eval.batches = 2;
  c.data.split = "3,1";
  EXPECT_EQ(TrainingData(c, 0, 1).examples(), 30);
  c.data.validation = folder_ / "b.jsonl";
  TrainingData data(c, 0, 1);
  EXPECT_EQ(data.examples(), 40);
  EXPECT_FALSE(data.identity().contains("data.split"));
  const std::vector<Batch> valid = data.validation(1);  // over and over
  ASSERT_EQ(valid.size(), 12U);
  for (const Batch& batch : valid) {
    EXPECT_TRUE(batch.tokens.equal(valid[0].tokens));
    EXPECT_FALSE(batch.first_keys.defined());
  }
}

TEST_F(TrainingDataTest, PromptsNeedATokenizer) {
  write_file(folder_ / "a.jsonl", test::small_prompts(12));
  Config c = test::small_prompt_config(folder_ / "a.jsonl", ModelKind::gpt2);
  c.data.tokenizer.clear();
  EXPECT_THAT(error_message([&] { TrainingData(c, 0, 1); }), HasSubstr("give the model's tokenizer.json"));
}

TEST_F(TrainingDataTest, TokenFilesMayHaveSeparateDocumentsAndAFileForValidation) {
  const auto write = [&](const char* name, int32_t token, int documents) {
    IndexedWriter writer(folder_ / name, TokenType::u16);
    for (int d = 0; d < documents; ++d) writer.add_document(std::vector<int32_t>(static_cast<size_t>(5 + d), token));
    writer.close();
  };
  write("train", 7, 20);
  write("valid", 9, 4);
  Config c = test::small_prompt_config(folder_ / "train", ModelKind::gpt2);
  c.data.format = DataFormat::tokens;
  c.data.validation = folder_ / "valid";
  c.eval.every = 1;
  c.eval.batches = 1;
  TrainingData joined(c, 0, 1);
  EXPECT_FALSE(joined.training(0)[0].first_keys.defined());
  EXPECT_EQ(joined.identity().at("tokens in data.path"), "290");
  EXPECT_EQ(joined.training(0)[3].tokens.max().item<int32_t>(), 7);
  EXPECT_EQ(joined.validation(0)[3].tokens.min().item<int32_t>(), 9);
  c.data.separate_documents = Switch::on;
  TrainingData separate(c, 0, 1);
  const std::vector<Batch> batches = separate.training(0);
  for (const Batch& batch : batches) {
    ASSERT_TRUE(batch.first_keys.defined());
    const int32_t* first = batch.first_keys.const_data_ptr<int32_t>();
    const int32_t* position = batch.positions.const_data_ptr<int32_t>();
    for (int32_t t = 0; t < 24; ++t) EXPECT_EQ(position[t], t - first[t]);
  }
}

// Samples come from the datasets in proportion, by weights or by size; orders lie beside the data or nowhere; and what
// a run was planned for decides its samples.
TEST_F(TrainingDataTest, TokenFilesAreBlended) {
  const auto write = [&](const char* name, int32_t token, int documents) {
    IndexedWriter writer(folder_ / name, TokenType::u16);
    for (int d = 0; d < documents; ++d)
      writer.add_document(std::vector<int32_t>(static_cast<size_t>(30 + d % 7), token));
    writer.close();
  };
  write("a", 7, 60);
  write("b", 9, 20);
  Config c = test::small_prompt_config("", ModelKind::gpt2);
  c.data.path.clear();
  c.data.format = DataFormat::tokens;
  c.data.split = "1";
  c.train.global_batch = c.train.micro_batch = 12;
  c.train.steps = 5;
  const auto of_b = [](TrainingData& data, int64_t samples) {
    int64_t count = 0;
    for (int64_t at = 0; at < samples; at += 12) {
      const std::vector<Batch> batches = data.training(at);
      const int32_t* tokens = batches[0].tokens.const_data_ptr<int32_t>();
      for (int64_t i = 0; i < 12; ++i) count += tokens[i * batches[0].tokens.size(1)] == 9 ? 1 : 0;
    }
    return count;
  };
  c.data.blend = {"1", folder_ / "a", "3", folder_ / "b"};
  TrainingData weighted(c, 0, 1);
  EXPECT_EQ(of_b(weighted, 60), 45);
  EXPECT_EQ(weighted.identity().at("data.blend"), "1 of a with 1974 tokens, 3 of b with 657 tokens");
  EXPECT_THAT(weighted.planned_samples(), testing::ElementsAre(60));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a_cache"));
  c.data.blend = {folder_ / "a", folder_ / "b"};
  c.data.cache = "none";
  std::filesystem::remove_all(folder_ / "a_cache");
  TrainingData by_size(c, 0, 1);
  EXPECT_EQ(of_b(by_size, 60), 15);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a_cache"));

  // Begun with 5 steps and prolonged to 100 behind the third, against begun with 100.
  TrainingData begun(c, 0, 1);
  c.train.steps = 100;
  const RunPosition position{.step = 3, .consumed_samples = 36, .planned_samples = begun.planned_samples()};
  TrainingData prolonged(c, 0, 1, position);
  EXPECT_THAT(prolonged.planned_samples(), testing::ElementsAre(60, 1200));
  for (int64_t at = 0; at < 60; at += 12)
    EXPECT_TRUE(prolonged.training(at)[0].tokens.equal(begun.training(at)[0].tokens)) << at;
  (void)prolonged.training(1188);
  c.train.steps = 4;
  const TrainingData shortened(c, 0, 1, position);
  EXPECT_THAT(shortened.planned_samples(), testing::ElementsAre(60));
}

}  // namespace
}  // namespace partita::internal
