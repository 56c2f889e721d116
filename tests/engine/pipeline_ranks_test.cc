// Pipeline parallelism, with tensor and data parallelism and ZeRO, reproduces the single-process run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/mesh_groups.h"
#include "tests/engine/named_cases.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::expect_equal;
using test::gpt2_adapters;
using Kind = test::NamedCase;
using test::expect_same_values;
using test::MeshGroups;

constexpr int64_t kSteps = 3;

std::vector<Kind> kinds() {
  const auto lower_half = [](const ParameterSpec& p) {
    return p.name.starts_with("embedding.") || p.name.starts_with("layers.0.") || p.name.starts_with("layers.1.");
  };
  const auto head_frozen = [](const ParameterSpec& p) {
    return p.name.starts_with("head.") || p.name.starts_with("final_norm.") || p.name.starts_with("layers.4.");
  };
  const auto upper_half = [](const ParameterSpec& p) {
    return !p.name.starts_with("embedding.") && !p.name.starts_with("layers.0.") && !p.name.starts_with("layers.1.");
  };
  const ModelKind llama = ModelKind::llama;
  return {{"gpt2, tied", {.heads = 5}},
          {"gpt2, untied, full recomputation", {.tied_head = TiedHead::no, .recompute = Recompute::full, .heads = 5}},
          {"gpt2, adapters", {.lora = gpt2_adapters(), .recompute = Recompute::mlp, .heads = 5}},
          {"llama, tied", {.kind = llama, .tied_head = TiedHead::yes}},
          {"llama, lower half frozen", {.kind = llama, .frozen = lower_half}},
          {"llama, upper half frozen", {.kind = llama, .frozen = upper_half}},
          {"llama, head frozen, no dropout", {.kind = llama, .frozen = head_frozen, .dropout = 0}},
          {"llama, LAMB", {.kind = llama, .tied_head = TiedHead::yes, .optimizer = OptimizerKind::lamb}}};
}

const std::vector<std::pair<PipelineSchedule, int>> kSchedules = {  // and chunks
    {PipelineSchedule::gpipe, 1},       {PipelineSchedule::one_f_one_b, 1},
    {PipelineSchedule::interleaved, 2}, {PipelineSchedule::looped_bfs, 2},
    {PipelineSchedule::zb_h1, 1},       {PipelineSchedule::interleaved_zero_bubble, 2},
    {PipelineSchedule::zbv, 2},         {PipelineSchedule::dual_pipe_v, 2}};

struct Layout {
  int pipeline, tensor;
  PipelineSchedule schedule;
  int chunks, stage, micro_batches;
};

// A part of the product of what this number of ranks allows, another one for each kind; or all of it.
std::vector<Layout> layouts(int number) {
  std::vector<Layout> all;
  int count = 0;
  const int ranks = test_world().size();
  for (const int pipeline : {2, 3, 4})
    for (const int tensor : {1, 2}) {
      if (ranks % (pipeline * tensor) != 0) continue;
      for (const auto& [schedule, chunks] : kSchedules) {
        if (pipeline * chunks > 7) continue;  // blocks
        for (const int stage : {0, 1, 2, 3})
          for (const int micro_batches : {1, 2, 3, 6}) {
            if (!full_products() && (count++ + number) % 11 != 0) continue;
            all.push_back({pipeline, tensor, schedule, chunks, stage, micro_batches});
          }
      }
    }
  return all;
}

EngineCase case_of(const Kind& kind, const Layout& l) {
  EngineCase c = kind.c;
  c.stage = l.stage;
  c.micro_batches = l.micro_batches;
  c.schedule = l.schedule;
  c.chunks = l.chunks;
  c.open_weights = l.micro_batches % 3 == 0 ? 1 : -1;  // fewer than the schedule delays
  c.leaves_operands = l.stage % 2 == 0;
  c.poison = c.check_messages = l.micro_batches % 2 == 0;
  c.samples = static_cast<int>(test::kGlobalBatch) / (test_world().size() / (l.pipeline * l.tensor)) / l.micro_batches;
  return c;
}

std::string text_of(const Kind& kind, const Layout& l) {
  return fmt::format("{}, pipeline {}, tensor {}, {}, chunks {}, stage {}, micro-batches {}", kind.name, l.pipeline,
                     l.tensor, name_of(l.schedule), l.chunks, l.stage, l.micro_batches);
}

TEST(Pipeline, IsTheSingleProcessRun) {
  int number = 0;
  const auto self = test_world().self();
  for (const Kind& kind : kinds()) {
    EngineCase one = kind.c;
    one.samples = static_cast<int>(test::kGlobalBatch);
    const std::vector<StepResult> expected =
        test::run_steps(*test::make_engine(one, *self, *self), one, 0, 1, 0, kSteps);
    for (const Layout& l : layouts(number++)) {
      const MeshGroups groups({.tensor = l.tensor, .pipeline = l.pipeline}, test::model_of(kind.c));
      const EngineCase c = case_of(kind, l);
      const auto engine = groups.engine(c);
      expect_equal(test::run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, kSteps), expected, 1e-5,
                   text_of(kind, l));
    }
  }
}

TEST(Pipeline, EveryGradientIsTheSingleProcessGradient) {
  int number = 3;
  const auto self = test_world().self();
  for (const Kind& kind : kinds()) {
    EngineCase one = kind.c;
    one.samples = static_cast<int>(test::kGlobalBatch);
    const auto whole = test::make_engine(one, *self, *self);
    test::gradient_step(*whole, one, 0, 1);
    for (const Layout& l : layouts(number++)) {
      const MeshGroups groups({.tensor = l.tensor, .pipeline = l.pipeline}, test::model_of(kind.c));
      const EngineCase c = case_of(kind, l);
      const auto engine = groups.engine(c);
      test::gradient_step(*engine, c, groups.data->rank(), groups.data->size());
      expect_same_values(*engine, *whole, text_of(kind, l), 2e-5);
    }
  }
}

// Evaluation passes one micro-batch through all stages.
TEST(Pipeline, EvaluatesAsOneProcess) {
  const auto self = test_world().self();
  for (const Kind& kind : kinds())
    for (const int pipeline : {2, 3, 4})
      for (const auto& [schedule, chunks] : {std::pair(PipelineSchedule::one_f_one_b, 1),
                                             {PipelineSchedule::interleaved, 2},
                                             {PipelineSchedule::zbv, 2}}) {
        if (test_world().size() % pipeline != 0 || pipeline * chunks > 7) continue;
        const MeshGroups groups({.pipeline = pipeline}, test::model_of(kind.c));
        EngineCase c = kind.c;
        c.schedule = schedule;
        c.chunks = chunks;
        const EvalResult found = groups.engine(c)->evaluate(test::make_batch(2 * groups.data->rank(), 2));
        EvalResult expected;
        const auto whole = test::make_engine(kind.c, *self, *self);
        for (int rank = 0; rank < groups.data->size(); ++rank) {
          const EvalResult part = whole->evaluate(test::make_batch(2 * rank, 2));
          expected.loss_sum += part.loss_sum, expected.tokens += part.tokens;
        }
        EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum) << kind.name;
        EXPECT_EQ(found.tokens, expected.tokens);
      }
}

// Weight gradients of a chunk are computed in the order of the micro-batches, whatever the schedule: the same bits as
// one stage with the same micro-batches, except where ranks sum (norm and clipping, a tied table).
TEST(Pipeline, SchedulesChangeNoBit) {
  const auto self = test_world().self();
  const int ranks = test_world().size();
  if (ranks == 1) return;
  for (const ModelKind model : {ModelKind::gpt2, ModelKind::llama}) {
    EngineCase c{.kind = model, .tied_head = TiedHead::no, .samples = 1, .micro_batches = 5};
    const auto train = [&](Engine& engine) {
      double loss = 0;
      for (int64_t step = 0; step < 3; ++step)
        loss =
            engine.step(test::rank_batches(c, step, 0, 1), {.step = step, .update = step, .learning_rate = 3e-3F}).loss;
      return loss;
    };
    const auto whole = test::make_engine(c, *self, *self);
    const double expected = train(*whole);
    for (const auto& [schedule, chunks] : kSchedules) {
      if (ranks * chunks > 7 || schedule == PipelineSchedule::looped_bfs) continue;  // another order of micro-batches
      c.schedule = schedule, c.chunks = chunks;
      const MeshGroups groups({.pipeline = ranks}, test::model_of(c));
      const auto engine = groups.engine(c);
      EXPECT_EQ(train(*engine), expected) << name_of(schedule);
      expect_same_values(*engine, *whole, name_of(schedule), 0);
    }
  }
}

}  // namespace
}  // namespace partita::internal
