// Engines of the library on one rank and on several: what is trained, saved and resumed, and what is refused.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "partita/train/batch_loader.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_checkpoint.h"
#include "tests/support/error_message.h"
#include "tests/support/ranks.h"
#include "tests/support/shared_folder.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

const ModelConfig kModel{.layers = 2, .hidden_size = 24, .heads = 3, .vocab_size = 31, .max_length = 8};

Batch batch_of(const Mesh& mesh) {
  return make_batch(at::arange(2 * 9, at::kLong).remainder(31).view({2, 9}), 2 * mesh.data().rank());
}

StepResult step(Engine& engine, const Mesh& mesh, int64_t k) {
  const Batch batch = batch_of(mesh);
  return engine.step({&batch, 1}, {.step = k, .update = k, .learning_rate = 1e-2, .clip = 1});
}

// With adapters only these are trained; without them everything is.
TEST(MakeEngine, TrainsTheAdaptersAlone) {
  const Mesh mesh(test_world());
  const EngineOptions options{.shape = {.samples = 2, .length = 8}};
  for (const int stage : {0, 3}) {
    const auto whole = make_engine(kModel, mesh, stage, options);
    for (const ParameterSpec& p : whole->parameters()) EXPECT_TRUE(p.trainable) << p.name;
    const auto adapted = make_engine(kModel, mesh, stage, options, {.lora = {.rank = 2}});
    int adapters = 0;
    for (const ParameterSpec& p : adapted->parameters()) {
      EXPECT_EQ(p.trainable, p.adapter) << p.name;
      adapters += p.adapter ? 1 : 0;
    }
    EXPECT_GT(adapters, 0);
  }
}

// Two steps, a checkpoint, two steps: the same loss and norm from the engine that went on and from one that resumed.
TEST(MakeEngine, ResumesWhereItWasSaved) {
  const Mesh alone = Mesh::alone(test_world());
  const TemporaryDirectory folder;  // of this rank
  const EngineOptions options{.shape = {.samples = 2, .length = 8}, .seed = 7};
  for (const int64_t rank : {0, 2}) {
    const LoraConfig lora{.rank = rank};
    const CheckpointModel model{.model = kModel, .lora = lora, .base = rank > 0 ? folder / "base" : ""};
    const auto run = folder / (rank > 0 ? "adapters" : "whole");
    const auto first = make_engine(kModel, alone, 1, options, {.lora = lora});
    for (int64_t k = 0; k < 2; ++k) (void)step(*first, alone, k);
    save_engine(*first, model, alone, run, {.step = 2, .consumed_samples = 4, .skipped_steps = 1});
    const auto second = make_engine(kModel, alone, 3, options, {.lora = lora});
    const auto at = resume_engine(*second, model, alone, run);
    ASSERT_TRUE(at.has_value());
    EXPECT_EQ(at->step, 2);
    EXPECT_EQ(at->consumed_samples, 4);
    EXPECT_EQ(at->skipped_steps, 1);
    for (int64_t k = 2; k < 4; ++k) {
      const StepResult expected = step(*first, alone, k), found = step(*second, alone, k);
      EXPECT_EQ(found.loss, expected.loss) << "step " << k << ", adapters of rank " << rank;
      EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-6 * expected.grad_norm);
    }
  }
  const auto engine = make_engine(kModel, alone, 0, options);
  EXPECT_FALSE(resume_engine(*engine, {kModel}, alone, folder / "none").has_value());
}

// Boxes of checkpoints do not depend on what ranks divide: from each plan to the next, with three heads on up to four
// ranks.
TEST(MakeEngine, ContinuesWithAnotherPlan) {
  const int ranks = test_world().size();
  const Mesh mesh(test_world(), {.data = 1, .tensor = ranks, .kv_heads = 3});
  const Mesh alone = Mesh::alone(test_world());
  const SharedFolder folder(mesh.world());
  const EngineOptions options{.shape = {.samples = 2, .length = 8}, .tensor = {.sequence = true}, .seed = 7};
  const auto whole = make_engine(kModel, alone, 0, options);
  const NamedRole attention{"layers.*.attention", TensorRole::replicate}, mlp{"layers.*.mlp", TensorRole::replicate},
      embedding{"embedding", TensorRole::replicate}, first{"layers.0", TensorRole::replicate};
  const std::vector<DivisionPlan> plans = {
      {attention}, {attention, mlp, embedding}, {first, attention}, {attention, embedding}};
  for (int64_t k = 0; k < std::ssize(plans); ++k) {
    const auto engine =
        make_engine(kModel, mesh, static_cast<int>(k), options, {.plan = plans[static_cast<size_t>(k)]});
    const auto run = [&](int64_t number) { return folder / std::to_string(number); };
    if (k > 0) {
      ASSERT_EQ(resume_engine(*engine, {kModel}, mesh, run(k - 1))->step, k);
    }
    const StepResult expected = step(*whole, alone, k), found = step(*engine, mesh, k);
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss) << k;
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm) << k;
    save_engine(*engine, {kModel}, mesh, run(k), {.step = k + 1});
  }
}

// A checkpoint of a run without fp8 has no magnitudes of earlier steps: the first step measures them, as with scales of
// the tensors themselves, on the same layout and on another one.
TEST(MakeEngine, StartsDelayedScalesFromACheckpointWithoutThem) {
  const int ranks = test_world().size();
  const ModelConfig model{.layers = 2, .hidden_size = 64, .heads = 4, .vocab_size = 31, .max_length = 8};
  const Mesh data(test_world()), tensor(test_world(), {.data = 1, .tensor = ranks, .kv_heads = 4});
  const SharedFolder folder(data.world());
  EngineOptions options{.shape = {.samples = 2, .length = 8}, .compute = DType::bf16, .seed = 7};
  const auto before = make_engine(model, data, 1, options);
  (void)step(*before, data, 0);
  save_engine(*before, {model}, data, folder / "bf16", {.step = 1});
  for (const Mesh* mesh : {&data, &tensor}) {
    if (mesh == &tensor && ranks == 3) continue;  // no part of a matrix is a multiple of 16
    const auto loss = [&](bool delayed) {
      options.delayed_scales = delayed;
      const auto engine = make_engine(model, *mesh, 1, options, {.fp8 = true});
      EXPECT_TRUE(resume_engine(*engine, {model}, *mesh, folder / "bf16").has_value());
      EXPECT_TRUE(engine->amax_history().empty());
      const StepResult r = step(*engine, *mesh, 1);
      EXPECT_EQ(engine->amax_history().empty(), !delayed);
      for (const float amax : engine->amax_history()) EXPECT_TRUE(amax >= 0 && amax < 1e4) << amax;
      return std::pair(r.loss, r.grad_norm);
    };
    const auto [current, current_norm] = loss(false);
    const auto [delayed, delayed_norm] = loss(true);
    EXPECT_EQ(delayed, current);
    EXPECT_NEAR(delayed_norm, current_norm, 1e-3 * current_norm);
  }
}

TEST(MakeEngine, RefusesWhatDoesNotFit) {
  const Mesh alone = Mesh::alone(test_world());
  const EngineOptions options{.shape = {.samples = 2, .length = 8}};
  EXPECT_EQ(
      error_message([&] {
        (void)make_engine(kModel, alone, 0, options, {.plan = {{"layers.9", TensorRole::replicate}}});
      }),
      fmt::format("ModelBuild::plan: \"layers.9\" matches nothing: the model has layers 0 to {}", kModel.layers - 1));
  const auto engine = make_engine(kModel, alone, 0, options, {.lora = {.rank = 2}});
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { save_engine(*engine, {kModel}, alone, folder / "a", {}); }),
              HasSubstr("the engine has adapters, and CheckpointModel::lora has rank 0"));
  EXPECT_THAT(error_message([&] {
                save_engine(*engine, {kModel, {.rank = 2}, {}}, alone, folder / "a", {});
              }),
              HasSubstr("set CheckpointModel::base"));
  const Batch longer = make_batch(at::arange(2 * 10, at::kInt).view({2, 10}));
  EXPECT_THAT(error_message([&] {
                (void)engine->step({&longer, 1}, {});
              }),
              HasSubstr("a batch of 2 samples x 9 tokens, expected 2 x 8"));
  EXPECT_THAT(error_message([&] { (void)engine->step({}, {}); }), HasSubstr("0 micro-batches, expected 1"));
  EXPECT_THAT(error_message([] { (void)make_batch(at::arange(4, at::kInt)); }), HasSubstr("found [4]"));
  EXPECT_THAT(error_message([] {
                (void)make_batch(at::full({1, 3}, int64_t{1} << 32, at::kLong));
              }),
              HasSubstr("beyond 32 bits"));
}

}  // namespace
}  // namespace partita::internal
