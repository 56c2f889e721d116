// Engines from a configuration, on one rank and on several.
#include "partita/train/build_model.h"

#include <gtest/gtest.h>

#include "partita/train/training_data.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/small_prompts.h"

namespace partita::internal {
namespace {

// The layers share the memory of one: nothing outlives it, and the loss is a training engine's.
TEST(BuildModel, InferenceKeepsNoActivations) {
  const Mesh mesh(test_world());
  const TemporaryDirectory folder;  // of this rank
  write_file(folder / "a.jsonl", test::small_prompts(60));
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    Config c = test::small_prompt_config(folder / "a.jsonl", kind);
    c.parallel.zero_stage = 3;
    TrainingData batches(c, mesh.data().rank(), mesh.data().size());
    const auto training = build_training_engine(c, mesh);
    const auto inference = build_inference_engine(c.model, {}, DType::fp32, {.samples = 1, .length = 24}, mesh, 3);
    for (Engine* engine : {training.get(), inference.get()}) engine->initialize(5);
    const Batch batch = batches.training(0)[0];
    EXPECT_GT(training->memory().activations, 0);
    EXPECT_EQ(inference->memory().activations, 0);
    EXPECT_EQ(inference->evaluate(batch).loss_sum, training->evaluate(batch).loss_sum);
  }
}

}  // namespace
}  // namespace partita::internal
