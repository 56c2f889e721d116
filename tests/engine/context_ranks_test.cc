// Context parallelism, with tensor, pipeline and data parallelism and ZeRO, reproduces the single-process run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "tests/engine/mesh_groups.h"
#include "tests/engine/named_cases.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::expect_equal;
using test::expect_same_values;
using test::gpt2_adapters;
using test::llama_adapters;
using test::MeshGroups;
using Kind = test::NamedCase;

constexpr int64_t kSamples = 12;  // of a step
constexpr int64_t kSteps = 3;

std::vector<Kind> kinds() {
  const ModelKind llama = ModelKind::llama;
  return {
      {"gpt2", {.heads = 5}},
      {"gpt2, full recomputation, documents", {.recompute = Recompute::full, .heads = 5, .documents = true}},
      {"gpt2, adapters, mlp recomputation", {.lora = gpt2_adapters(), .recompute = Recompute::mlp, .heads = 5}},
      {"llama", {.kind = llama}},
      {"llama, selective recomputation, documents",
       {.kind = llama, .recompute = Recompute::selective, .documents = true}},
      {"llama, adapters, full recomputation", {.kind = llama, .lora = llama_adapters(), .recompute = Recompute::full}},
      {"llama, six heads", {.kind = llama, .heads = 6}}};
}

struct Layout {
  int context, tensor, pipeline, stage, micro_batches;
  bool sequence;
};

// Part of the product of what this number of ranks allows, another one for each kind.
std::vector<Layout> layouts(int number) {
  std::vector<Layout> all;
  int count = 0;
  const int ranks = test_world().size();
  for (const int context : {2, 3, 4})
    for (const int tensor : {1, 2})
      for (const int pipeline : {1, 2}) {
        if (ranks % (context * tensor * pipeline) != 0) continue;
        for (const int stage : {0, 1, 2, 3})
          for (const bool sequence : {false, true})
            for (const int micro_batches : {1, 3}) {
              if (sequence && tensor == 1) continue;
              if ((count++ + number) % 3 == 0)
                all.push_back({context, tensor, pipeline, stage, micro_batches, sequence});
            }
      }
  return all;
}

// Pieces of three, two and one token.
int64_t length_of(const Layout& l) { return l.context == 4 ? 8 : 12; }

EngineCase whole_case(const Kind& kind, const Layout& l) {
  EngineCase one = kind.c;
  one.length = length_of(l);
  one.samples = static_cast<int>(kSamples);
  return one;
}

EngineCase case_of(const Kind& kind, const Layout& l, const MeshGroups& groups) {
  EngineCase c = kind.c;
  c.length = length_of(l);
  c.stage = l.stage;
  c.sequence = l.sequence;
  c.micro_batches = l.micro_batches;
  c.poison = l.stage > 1;
  c.samples = static_cast<int>(kSamples) / groups.data->size() / l.micro_batches;
  c.context = groups.split();
  return c;
}

MeshGroups groups_of(const Kind& kind, const Layout& l) {
  return {{.tensor = l.tensor, .pipeline = l.pipeline, .context = l.context}, test::model_of(kind.c)};
}

std::string text_of(const Kind& kind, const Layout& l) {
  return fmt::format("{}, context {}, tensor {}, pipeline {}, stage {}, sequence {}, micro-batches {}", kind.name,
                     l.context, l.tensor, l.pipeline, l.stage, l.sequence, l.micro_batches);
}

TEST(ContextParallel, IsTheSingleProcessRun) {
  int number = 0;
  const auto self = test_world().self();
  for (const Kind& kind : kinds()) {
    std::map<int64_t, std::vector<StepResult>> expected;  // by length
    for (const Layout& l : layouts(number++)) {
      std::vector<StepResult>& whole = expected[length_of(l)];
      if (whole.empty()) {
        const EngineCase one = whole_case(kind, l);
        whole = test::run_steps(*test::make_engine(one, *self, *self), one, 0, 1, 0, kSteps);
      }
      const MeshGroups groups = groups_of(kind, l);
      const EngineCase c = case_of(kind, l, groups);
      const auto engine = groups.engine(c);
      expect_equal(test::run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, kSteps), whole, 1e-5,
                   text_of(kind, l));
    }
  }
}

// Each gradient, as the first moments of a step that changes no weight.
TEST(ContextParallel, EveryGradientIsTheSingleProcessGradient) {
  int number = 1;
  const auto self = test_world().self();
  for (const Kind& kind : kinds()) {
    for (const Layout& l : layouts(number++)) {
      const EngineCase one = whole_case(kind, l);
      const auto whole = test::make_engine(one, *self, *self);
      test::gradient_step(*whole, one, 0, 1);
      const MeshGroups groups = groups_of(kind, l);
      const EngineCase c = case_of(kind, l, groups);
      const auto engine = groups.engine(c);
      test::gradient_step(*engine, c, groups.data->rank(), groups.data->size());
      expect_same_values(*engine, *whole, text_of(kind, l), 2e-5);
    }
  }
}

TEST(ContextParallel, EvaluatesAsOneProcess) {
  const auto self = test_world().self();
  for (const Kind& kind : kinds())
    for (const Layout& l : layouts(0)) {
      if (l.stage % 2 != 0) continue;
      const MeshGroups groups = groups_of(kind, l);
      const EngineCase c = case_of(kind, l, groups);
      EngineCase one = whole_case(kind, l);
      one.samples = c.samples * groups.data->size();
      const EvalResult found =
          groups.engine(c)->evaluate(test::make_batch(c, c.samples * groups.data->rank(), c.samples));
      const EvalResult expected = test::make_engine(one, *self, *self)->evaluate(test::make_batch(one, 0, one.samples));
      EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum) << text_of(kind, l);
      EXPECT_EQ(found.tokens, expected.tokens);
    }
}

TEST(ContextParallel, WhatDoesNotFitIsRefused) {
  const int ranks = test_world().size();
  if (ranks == 1) return;
  EngineCase c{.length = 12};
  const MeshGroups groups({.context = ranks}, test::model_of(c));
  EXPECT_THAT([&] { (void)groups.engine(c); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  fmt::format("EngineOptions::context is rank 0 of 1, but Zero::context has {} ranks", ranks))));
  c.context = groups.split();
  EXPECT_THAT(
      [&] {
        (void)groups.engine(c, {1, 3});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr(
          fmt::format("EngineOptions::shape has 3 tokens of each sample on a context-parallel rank: these are "
                      "two equal pieces, so use samples of a multiple of {}",
                      2 * ranks))));
  c.length = 2 * ranks;
  const auto engine = groups.engine(c);
  EXPECT_THAT([&] { (void)engine->logits(test::make_batch(0, 1), 61); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("load the model without context parallelism")));
  EXPECT_THAT(
      [&] { (void)take_pieces(test::make_batch(0, 1), c.context); },
      testing::ThrowsMessage<Error>(testing::HasSubstr(fmt::format(
          "a batch with 13 tokens a sample over {} context-parallel ranks: use a multiple of {}", ranks, 2 * ranks))));
}

}  // namespace
}  // namespace partita::internal
