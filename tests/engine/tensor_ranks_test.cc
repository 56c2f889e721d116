// Tensor and sequence parallelism, with data parallelism and ZeRO, reproduce the single-process run.
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
using test::expect_same_values;
using test::gpt2_adapters;
using test::llama_adapters;
using test::MeshGroups;
using Kind = test::NamedCase;

constexpr int64_t kSamples = 12;  // of a step
constexpr int64_t kSteps = 3;

std::vector<int> tensor_sizes() {
  std::vector<int> sizes;
  for (int t = 2; t <= test_world().size(); ++t)
    if (test_world().size() % t == 0) sizes.push_back(t);
  return sizes;
}

// GPT-2 with five heads, which no number of ranks divides; Llama with two key/value heads, of which four ranks share
// each.
std::vector<Kind> kinds() {
  const auto frozen = [](const ParameterSpec& p) {
    return p.name.starts_with("embedding.") || p.name.starts_with("layers.0.") ||
           p.name == "layers.2.mlp.down.weight" || p.name == "layers.3.attention.norm.weight";
  };
  const ModelKind llama = ModelKind::llama;
  return {
      {"gpt2", {.heads = 5}},
      {"gpt2, untied, full recomputation", {.tied_head = TiedHead::no, .recompute = Recompute::full, .heads = 5}},
      {"gpt2, adapters, mlp recomputation", {.lora = gpt2_adapters(), .recompute = Recompute::mlp, .heads = 5}},
      {"gpt2, frozen in part", {.tied_head = TiedHead::no, .frozen = frozen, .heads = 5}},
      {"llama", {.kind = llama}},
      {"llama, tied, selective recomputation",
       {.kind = llama, .tied_head = TiedHead::yes, .recompute = Recompute::selective}},
      {"llama, adapters, full recomputation", {.kind = llama, .lora = llama_adapters(), .recompute = Recompute::full}},
      {"llama, LAMB", {.kind = llama, .optimizer = OptimizerKind::lamb}},
      {"llama, queries shared unevenly", {.kind = llama, .layers_per_unit = 0, .heads = 6}}};
}

// Calls visit(groups, case, what) for a quarter of the product of layouts, another one for each kind, so that each pair
// of settings occurs; or for all.
template <class Visit>
void each_layout(const Kind& kind, int number, Visit visit) {
  for (const int tensor : tensor_sizes())
    for (const bool sequence : {false, true})
      for (const int stage : {0, 1, 2, 3})
        for (const int micro_batches : {1, 3}) {
          if (!full_products() && (stage + (sequence ? 2 : 0) + (micro_batches > 1 ? 1 : 0) + number) % 4 != 0)
            continue;
          const MeshGroups groups({.tensor = tensor}, test::model_of(kind.c));
          EngineCase c = kind.c;
          c.stage = stage;
          c.sequence = sequence;
          c.micro_batches = micro_batches;
          c.samples = static_cast<int>(kSamples) / groups.data->size() / micro_batches;
          visit(groups, c,
                fmt::format("{}, tensor {}, sequence {}, data {}, stage {}, micro-batches {}", kind.name, tensor,
                            sequence, groups.data->size(), stage, micro_batches));
        }
}

TEST(TensorParallel, IsTheSingleProcessRun) {
  int number = 0;
  for (const Kind& kind : kinds()) {
    EngineCase one = kind.c;
    one.samples = static_cast<int>(kSamples);
    const auto alone = test_world().self();
    const auto whole = test::make_engine(one, *alone, *alone);
    const std::vector<StepResult> expected = test::run_steps(*whole, one, 0, 1, 0, kSteps);
    each_layout(kind, number++, [&](const MeshGroups& groups, const EngineCase& c, const std::string& what) {
      const auto engine = groups.engine(c);
      expect_equal(test::run_steps(*engine, c, groups.data->rank(), groups.data->size(), 0, kSteps), expected, 1e-5,
                   what);
    });
  }
}

// Each gradient, as the first moments of a step that changes no weight.
TEST(TensorParallel, EveryGradientIsTheSingleProcessGradient) {
  int number = 0;
  for (const Kind& kind : kinds()) {
    EngineCase one = kind.c;
    one.samples = static_cast<int>(kSamples);
    const auto alone = test_world().self();
    const auto whole = test::make_engine(one, *alone, *alone);
    test::gradient_step(*whole, one, 0, 1);
    each_layout(kind, number++, [&](const MeshGroups& groups, const EngineCase& c, const std::string& what) {
      const auto engine = groups.engine(c);
      test::gradient_step(*engine, c, groups.data->rank(), groups.data->size());
      expect_same_values(*engine, *whole, what, 2e-5);
    });
  }
}

TEST(SequenceParallel, ChangesNoBit) {
  for (const auto& [name, like] : kinds())
    for (const int tensor : tensor_sizes())
      for (const DType compute : {DType::fp32, DType::bf16}) {
        const MeshGroups groups({.tensor = tensor}, test::model_of(like));
        EngineCase c = like;
        c.compute = compute;
        c.stage = 2;
        c.micro_batches = 2;
        c.samples = tensor;  // whose rows the ranks divide
        const std::vector<double> off = test::bits_of(groups, c, kSteps);
        c.sequence = true;
        EXPECT_TRUE(test::bits_of(groups, c, kSteps) == off)
            << name << ", tensor " << tensor << ", " << name_of(compute);
      }
}

// Losses and logits of any shape, whether the ranks divide its rows or not.
TEST(TensorParallel, EvaluatesAndInfersAsOneProcess) {
  const auto self = test_world().self();
  for (const Kind& kind : kinds())
    for (const int tensor : tensor_sizes())
      for (const bool sequence : {false, true}) {
        const MeshGroups groups({.tensor = tensor}, test::model_of(kind.c));
        EngineCase c = kind.c;
        c.sequence = sequence;
        c.samples = tensor;
        const auto engine = groups.engine(c), whole = test::make_engine(c, *self, *self);
        const int rank = groups.data->rank();
        EvalResult expected;
        for (int r = 0; r < groups.data->size(); ++r) {
          const EvalResult part = whole->evaluate(test::make_batch(r * tensor, tensor));
          expected.loss_sum += part.loss_sum, expected.tokens += part.tokens;
        }
        const EvalResult found = engine->evaluate(test::make_batch(rank * tensor, tensor));
        EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-5 * expected.loss_sum) << kind.name;
        EXPECT_EQ(found.tokens, expected.tokens);
        for (const int64_t length : {1, 2, 5, 12}) {
          Batch batch = test::make_batch(7, 2);
          for (at::Tensor* t : {&batch.tokens, &batch.positions}) *t = t->narrow(1, 0, length).contiguous();
          batch.labels = at::Tensor();
          const at::Tensor logits = engine->logits(batch, 61), alone = whole->logits(batch, 61);
          EXPECT_LE(logits.sub(alone).abs().max().item<double>(), 1e-5) << kind.name << ", length " << length;
        }
      }
}

// Fewer rows than ranks, and a step without a row of this rank's own.
TEST(TensorParallel, RowsMayBeFewerThanRanks) {
  const auto self = test_world().self();
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    const EngineCase c{.kind = kind, .samples = 1, .poison = true, .heads = kind == ModelKind::gpt2 ? 5 : 0};
    const MeshGroups groups({.tensor = test_world().size()}, test::model_of(c));
    const auto row = [](int64_t step) {
      Batch batch = test::make_batch(step, 1);
      for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = t->narrow(1, 0, 1).contiguous();
      batch.labels.fill_(3);
      return batch;
    };
    const auto losses = [&](Engine& engine) {
      std::vector<double> all;
      for (int64_t step = 0; step < 3; ++step) {
        const std::vector<Batch> batches = {row(step)};
        all.push_back(engine.step(batches, {.step = step, .update = step, .learning_rate = 3e-3F}).loss);
      }
      return all;
    };
    const auto engine = groups.engine(c, {1, 1}), whole = test::make_engine(c, *self, *self, {}, {1, 1});
    const std::vector<double> found = losses(*engine), expected = losses(*whole);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
  }
}

}  // namespace
}  // namespace partita::internal
