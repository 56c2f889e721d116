// Finetuning on several ranks whose micro-batches, or pieces of them, have very different numbers of tokens that carry
// loss: each step equals that of a single process.
#include <gtest/gtest.h>

#include <optional>

#include "partita/train/training_data.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/small_prompts.h"

namespace partita::internal {
namespace {

std::vector<StepResult> run(Config config, int stage, const Mesh& mesh) {
  config.parallel.zero_stage = stage;
  config.parallel.context = mesh.context().size();
  TrainingData batches(config, mesh.data().rank(), mesh.data().size(), {}, 0, 1,
                       context_split(config, mesh.position().context));
  const auto engine = build_training_engine(config, mesh);
  engine->initialize(5);
  std::vector<StepResult> results;
  for (int64_t step = 0; step < config.train.steps; ++step) {
    results.push_back(engine->step(batches.training(step * config.train.global_batch),
                                   {.step = step, .update = step, .learning_rate = 1e-2F, .clip = 1}));
  }
  return results;
}

TEST(Prompts, EveryLayoutIsTheSingleProcessRun) {
  const int ranks = test_world().size();
  const Mesh alone = Mesh::alone(test_world()), data(test_world());
  std::vector<const Mesh*> meshes = {&data};
  std::optional<Mesh> context;
  if (ranks % 2 == 0)
    meshes.push_back(&context.emplace(test_world(), MeshLayout::Sizes{.data = ranks / 2, .context = 2}));
  const TemporaryDirectory folder;  // of this rank
  write_file(folder / "a.jsonl", test::small_prompts(60));
  for (const bool packed : {false, true}) {
    Config c = test::small_prompt_config(folder / "a.jsonl", ModelKind::llama);
    c.data.packing = packed;
    const std::vector<StepResult> expected = run(c, 0, alone);
    EXPECT_NE(expected[0].tokens, expected[1].tokens);
    for (const Mesh* mesh : meshes)
      for (const int stage : {0, 2, 3}) {
        SCOPED_TRACE(testing::Message() << "context " << mesh->context().size());
        const std::vector<StepResult> found = run(c, stage, *mesh);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].tokens, expected[i].tokens);
          EXPECT_NEAR(found[i].loss, expected[i].loss, 1e-5 * expected[i].loss) << "stage " << stage << ", step " << i;
          EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, 1e-5 * expected[i].grad_norm);
        }
      }
  }
}

// The ranks of one step do differ.
TEST(Prompts, RanksHaveDifferentNumbersOfTokens) {
  const TemporaryDirectory folder;
  write_file(folder / "a.jsonl", test::small_prompts(60));
  const Config c = test::small_prompt_config(folder / "a.jsonl", ModelKind::gpt2);
  std::vector<int64_t> tokens;
  for (int rank = 0; rank < 4; ++rank) {
    int64_t count = 0;
    for (const Batch& batch : TrainingData(c, rank, 4).training(0)) {
      const int32_t* labels = batch.labels.const_data_ptr<int32_t>();
      for (int64_t i = 0; i < batch.labels.numel(); ++i) count += labels[i] != kIgnoredLabel ? 1 : 0;
    }
    tokens.push_back(count);
  }
  for (size_t rank = 1; rank < 4; ++rank) EXPECT_NE(tokens[rank], tokens[0]);
}

}  // namespace
}  // namespace partita::internal
