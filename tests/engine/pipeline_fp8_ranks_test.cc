// Delayed fp8 scales in a pipeline: several micro-batches are between forward and backward at the same time, and each
// rank has the history of its layers.
#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "tests/engine/mesh_groups.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::MeshGroups;

EngineCase case_of(ModelKind kind) {
  return {.kind = kind,
          .tied_head = TiedHead::no,
          .samples = 16,
          .micro_batches = 4,
          .compute = DType::bf16,
          .fp8 = true,
          .delayed_scales = true};
}

// Without clipping, whose norm is summed in another order.
double train(Engine& engine, const EngineCase& c, int64_t first, int64_t last) {
  double loss = 0;
  for (int64_t step = first; step < last; ++step)
    loss = engine.step(test::rank_batches(c, step, 0, 1), {.step = step, .update = step, .learning_rate = 3e-3F}).loss;
  return loss;
}

// The first step measures before use, the second one takes what the first has recorded.
TEST(PipelineFp8, DelayedScalesChangeNoBit) {
  const auto self = test_world().self();
  const int ranks = test_world().size();
  if (ranks == 1) return;
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    EngineCase c = case_of(kind);
    const auto whole = test::make_engine(c, *self, *self);
    const double expected = train(*whole, c, 0, 3);
    for (const auto& [schedule, chunks] : {std::pair(PipelineSchedule::gpipe, 1),
                                           {PipelineSchedule::one_f_one_b, 1},
                                           {PipelineSchedule::interleaved, 2},
                                           {PipelineSchedule::zb_h1, 1},
                                           {PipelineSchedule::zbv, 2}}) {
      if (ranks * chunks > 7) continue;
      c.schedule = schedule, c.chunks = chunks;
      const MeshGroups groups({.pipeline = ranks}, test::model_of(c));
      const auto engine = groups.engine(c);
      EXPECT_TRUE(engine->amax_history().empty());
      (void)engine->evaluate(test::make_batch(1000, 16));  // leaves no trace
      EXPECT_EQ(train(*engine, c, 0, 3), expected) << name_of(schedule);
      test::expect_same_values(*engine, *whole, name_of(schedule), 0);
      EXPECT_EQ(engine->amax_history(), whole->amax_history()) << name_of(schedule);
    }
  }
}

// The history of a checkpoint is that of the model, which any number of stages continues.
TEST(PipelineFp8, GoesOnWithTheHistoryOfOneProcess) {
  const auto self = test_world().self();
  const int ranks = test_world().size();
  if (ranks == 1) return;
  EngineCase c = case_of(ModelKind::llama);
  if (2 * ranks <= 7) c.schedule = PipelineSchedule::interleaved, c.chunks = 2;
  const MeshGroups groups({.pipeline = ranks}, test::model_of(c));
  const auto engine = groups.engine(c), whole = test::make_engine(c, *self, *self);
  const auto begun = test::make_engine(c, *self, *self);
  train(*begun, c, 0, 1);
  const std::vector<float> history = begun->amax_history();
  ASSERT_EQ(history.size(), 5U * 4 * 3 * AmaxHistory::kSteps);
  whole->set_amax_history(history);
  engine->set_amax_history(history);
  EXPECT_EQ(engine->amax_history(), history);
  EXPECT_EQ(train(*engine, c, 1, 3), train(*whole, c, 1, 3));
  EXPECT_EQ(engine->amax_history(), whole->amax_history());
  EXPECT_THROW(engine->set_amax_history(std::vector<float>(7)), Error);
  engine->set_amax_history({});
  EXPECT_TRUE(engine->amax_history().empty());
}

// All at once: pipeline, tensor and sequence parallelism.
TEST(PipelineFp8, WithTensorParallelism) {
  if (test_world().size() != 4) return;
  EngineCase c = case_of(ModelKind::llama);
  c.heads = 6, c.sequence = true, c.stage = 1;
  const auto self = test_world().self();
  const auto whole = test::make_engine(c, *self, *self);
  const std::vector<StepResult> expected = test::run_steps(*whole, c, 0, 1, 0, 2);
  const MeshGroups groups({.tensor = 2, .pipeline = 2}, test::model_of(c));
  const auto engine = groups.engine(c);
  const std::vector<StepResult> found = test::run_steps(*engine, c, 0, 1, 0, 2);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].loss, expected[i].loss, 5e-4 * expected[i].loss) << i;
    EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, (i == 0 ? 0.01 : 0.05) * expected[i].grad_norm) << i;
  }
  const std::vector<float> history = engine->amax_history(), one = whole->amax_history();
  ASSERT_EQ(history.size(), one.size());
  for (size_t scale = 1; scale < one.size() / AmaxHistory::kSteps; scale += 3)  // of weights
    EXPECT_EQ(history[scale * AmaxHistory::kSteps], one[scale * AmaxHistory::kSteps]) << scale;
}

}  // namespace
}  // namespace partita::internal
