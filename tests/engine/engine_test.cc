#include "partita/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "partita/base/error.h"
#include "partita/comm/world.h"
#include "partita/engine/initial_weights.h"
#include "partita/ops/cross_entropy.h"
#include "tests/engine/small_model.h"

namespace partita::internal {
namespace {

using test::EngineCase;

std::string all_targets(ModelKind kind) {
  return kind == ModelKind::gpt2 ? "c_attn,c_proj,c_fc" : "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj";
}

class EngineTest : public testing::Test {
 protected:
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();

  std::unique_ptr<Engine> make(const EngineCase& c) { return test::make_engine(c, *self_, *self_); }

  // The whole parameter, master weights (0) or a state; there is one rank, so a run is a parameter.
  static at::Tensor values(const Engine& engine, const std::string& name, size_t kind = 0) {
    for (const OwnedBox& run : engine.owned_boxes())
      if (run.parameter->name == name) return run.values[kind];
    throw Error("no parameter " + name);
  }
};

TEST_F(EngineTest, LossOfFreshModelIsLogOfVocabulary) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    auto engine = make({.kind = kind, .samples = 4, .dropout = 0});
    const EvalResult r = engine->evaluate(test::make_batch(0, 4));
    EXPECT_NEAR(r.loss_sum / static_cast<double>(r.tokens), std::log(61.0), 0.05);
  }
}

// With adapters too: their gradients are there, and equal those without recomputation.
TEST_F(EngineTest, RecomputationGivesTheSameBits) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (int64_t rank : {0, 3}) {
      std::vector<StepResult> expected;
      for (const auto& [recompute, full_recompute_layers] :
           {std::pair(Recompute::none, 0), std::pair(Recompute::selective, 0), std::pair(Recompute::mlp, 0),
            std::pair(Recompute::full, 0), std::pair(Recompute::mlp, 2)}) {
        const EngineCase c{.kind = kind,
                           .lora = {.rank = rank, .dropout = 0.2, .targets = all_targets(kind)},
                           .samples = 3,
                           .micro_batches = 2,
                           .recompute = recompute,
                           .full_recompute_layers = full_recompute_layers,
                           .dropout = 0.2};
        const auto engine = make(c);
        const auto found = test::run_steps(*engine, c, 0, 1, 0, 5);
        if (expected.empty()) expected = found;
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].loss, expected[i].loss);
          EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm);
        }
        for (const OwnedBox& run : engine->owned_boxes())
          if (run.parameter->trainable) {
            EXPECT_GT(run.values[1].abs().max().item<float>(), 0) << run.parameter->name;
          }
      }
    }
}

// Micro-batches that wait between forward and backward, as in a pipeline: the same sums in the same order.
TEST_F(EngineTest, AnyOrderOfActionsGivesTheSameBits) {
  constexpr Pass kF = Pass::forward, kB = Pass::backward;
  const std::vector<std::vector<Action>> orders = {
      {},
      {{kF, 0, 0}, {kF, 1, 1}, {kF, 2, 2}, {kB, 0, 0}, {kB, 1, 1}, {kB, 2, 2, true}},
      {{kF, 0, 1}, {kF, 1, 0}, {kB, 0, 1}, {kF, 2, 1}, {kB, 1, 0}, {kB, 2, 1, true}}};
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::mlp, Recompute::full})
      for (int stage : {0, 3}) {
        std::vector<StepResult> expected;
        std::vector<at::Tensor> weights;
        int64_t kept = 0;
        for (const std::vector<Action>& actions : orders) {
          const EngineCase c{.kind = kind,
                             .stage = stage,
                             .samples = 2,
                             .micro_batches = 3,
                             .recompute = recompute,
                             .poison = true,
                             .dropout = 0.2,
                             .actions = actions};
          const auto engine = make(c);
          const auto found = test::run_steps(*engine, c, 0, 1, 0, 3);
          const std::vector<OwnedBox> runs = engine->owned_boxes();
          if (expected.empty()) {
            expected = found;
            for (const OwnedBox& run : runs) weights.push_back(run.values[0].clone());
            kept = engine->memory().activations;
            continue;
          }
          for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].loss, expected[i].loss);
            EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm);
          }
          for (size_t i = 0; i < runs.size(); ++i) EXPECT_TRUE(runs[i].values[0].equal(weights[i]));
          EXPECT_EQ(engine->memory().activations, kept * (actions[2].pass == kF ? 3 : 2)) << "memory per slot";
        }
      }
}

TEST_F(EngineTest, RecomputationKeepsLess) {
  const auto bytes = [&](Recompute recompute) {
    return make({.samples = 4, .recompute = recompute})->memory().activations;
  };
  EXPECT_LT(bytes(Recompute::selective), bytes(Recompute::none));
  EXPECT_LT(bytes(Recompute::mlp), bytes(Recompute::selective));
  EXPECT_LT(3 * bytes(Recompute::full), bytes(Recompute::mlp));

  // Layers are alike: each that keeps its entry alone saves the same.
  const auto with = [&](int full_recompute_layers) {
    return make({.samples = 4, .recompute = Recompute::mlp, .full_recompute_layers = full_recompute_layers})
        ->memory()
        .activations;
  };
  EXPECT_EQ(with(2) - with(4), with(0) - with(2));
  EXPECT_EQ(with(5), bytes(Recompute::full));
}

// Gradients lie where activations lay, and neither reads the other's bits.
TEST_F(EngineTest, GradientsShareTheMemoryOfActivations) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (Recompute recompute : {Recompute::none, Recompute::mlp, Recompute::full}) {
      EngineCase c{.kind = kind, .samples = 8, .recompute = recompute, .compute = DType::bf16};
      const auto engine = make(c);
      const auto plain = test::run_steps(*engine, c, 0, 1, 0, 5);
      const EngineMemory m = engine->memory();
      EXPECT_GT(m.shared, 0);
      EXPECT_LT(m.shared, m.gradients);
      c.poison = true;
      const auto poisoned = test::run_steps(*make(c), c, 0, 1, 0, 5);
      for (size_t i = 0; i < plain.size(); ++i) {
        EXPECT_EQ(poisoned[i].loss, plain[i].loss);
        EXPECT_EQ(poisoned[i].grad_norm, plain[i].grad_norm);
      }
      c.micro_batches = 2;
      EXPECT_EQ(make(c)->memory().shared, 0);
    }
}

TEST_F(EngineTest, BlocksWithoutBackwardKeepNothing) {
  const auto bytes = [&](int frozen_layers) {
    const auto frozen = [=](const ParameterSpec& p) {
      for (int layer = 0; layer < frozen_layers; ++layer)
        if (p.name.starts_with("layers." + std::to_string(layer) + ".")) return true;
      return frozen_layers > 0 && p.name.starts_with("embedding.position");
    };
    return make({.tied_head = TiedHead::no,
                 .frozen =
                     [=](const ParameterSpec& p) {
                       return frozen(p) || (frozen_layers > 0 && p.name == "embedding.token.weight");
                     },
                 .samples = 4})
        ->memory()
        .activations;
  };
  const int64_t whole = bytes(0), layer = (bytes(1) - bytes(4)) / 3;
  EXPECT_EQ(bytes(1), whole - layer);
  EXPECT_EQ(bytes(3), whole - 3 * layer);
  EXPECT_GT(5 * layer, whole / 2);
}

TEST_F(EngineTest, EvaluationLeavesTrainingAsItWas) {
  const EngineCase c{.samples = 3, .dropout = 0.1};
  const auto plain = make(c), with = make(c);
  const Batch batch = test::make_batch(900, 3);
  for (int64_t step = 0; step < 4; ++step) {
    const auto expected = test::run_steps(*plain, c, 0, 1, step, step + 1),
               found = test::run_steps(*with, c, 0, 1, step, step + 1);
    EXPECT_EQ(found[0].loss, expected[0].loss);
    const double once = with->evaluate(batch).loss_sum;
    (void)with->logits(test::make_batch(901, 1), 61);
    EXPECT_EQ(with->evaluate(batch).loss_sum, once);
  }
}

// The slope of the loss along a random direction of one parameter is the gradient along it: with dropout, whose masks
// stay the same as long as the step does.
class Slopes : public EngineTest, public testing::WithParamInterface<std::tuple<ModelKind, TiedHead, int64_t>> {};

TEST_P(Slopes, AreTheGradients) {
  const auto [kind, tied_head, rank] = GetParam();
  const EngineCase c{.kind = kind,
                     .tied_head = tied_head,
                     .lora = {.rank = rank, .alpha = 1, .dropout = 0.1, .targets = all_targets(kind)},
                     .samples = 3,
                     .micro_batches = 1,
                     .dropout = 0.15};
  const auto probe = make(c);
  const Batch batch = test::make_batch(5, 3);
  const auto loss = [&] { return probe->step(std::span(&batch, 1), {.step = 3, .learning_rate = 0}).loss; };
  for (const OwnedBox& run : probe->owned_boxes()) {
    // Wider weights than at the start, so that no gradient is lost in rounding.
    std::mt19937 random(static_cast<unsigned>(run.box.count()));
    std::normal_distribution<float> normal(0, run.parameter->init.mean == 0 ? 0.2F : 0.1F);
    for (int64_t i = 0; i < run.box.count(); ++i) run.values[0].data_ptr<float>()[i] += normal(random);
  }
  probe->publish_weights();
  for (const OwnedBox& run : probe->owned_boxes()) {
    if (!run.parameter->trainable) continue;
    // Adam's first moment after one step from zero is (1 - beta1) times the gradient.
    run.values[1].zero_();
    (void)loss();
    std::vector<float> gradient(run.values[1].data_ptr<float>(), run.values[1].data_ptr<float>() + run.box.count());
    for (float& g : gradient) g /= 0.1F;
    std::vector<float> direction(gradient.size());
    std::mt19937 random(7);
    double expected = 0, length = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      // Along the gradient, disturbed: a slope that is not lost among rounding errors.
      direction[i] = gradient[i] * (0.5F + static_cast<float>(random() % 1000) / 1000.0F);
      length += static_cast<double>(direction[i]) * direction[i];
    }
    length = std::sqrt(length);
    ASSERT_GT(length, 0) << run.parameter->name;
    for (size_t i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<float>(direction[i] / length);
      expected += static_cast<double>(direction[i]) * gradient[i];
    }
    const auto shifted = [&](double by) {
      float* w = run.values[0].data_ptr<float>();
      const std::vector<float> old(w, w + run.box.count());
      for (size_t i = 0; i < direction.size(); ++i) w[i] += static_cast<float>(by * direction[i]);
      probe->publish_weights();
      const double value = loss();
      std::ranges::copy(old, w);
      probe->publish_weights();
      return value;
    };
    const double h = 5e-3;
    // Fourth order: the curvature of softmax and norms does not disturb the comparison.
    const double slope = (8 * (shifted(h) - shifted(-h)) - (shifted(2 * h) - shifted(-2 * h))) / (12 * h);
    EXPECT_NEAR(slope, expected, 5e-3 * std::abs(expected) + 2e-4) << run.parameter->name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Slopes,
    testing::Values(std::tuple(ModelKind::gpt2, TiedHead::yes, 0), std::tuple(ModelKind::gpt2, TiedHead::no, 0),
                    std::tuple(ModelKind::llama, TiedHead::yes, 0), std::tuple(ModelKind::llama, TiedHead::no, 0),
                    std::tuple(ModelKind::gpt2, TiedHead::yes, 3), std::tuple(ModelKind::llama, TiedHead::no, 3)));

TEST_F(EngineTest, NonFiniteGradientsChangeNothing) {
  const EngineCase c{.samples = 2, .dropout = 0};
  const auto engine = make(c);
  at::Tensor bias = values(*engine, "layers.2.mlp.up.bias");
  bias.fill_(std::numeric_limits<float>::quiet_NaN());
  engine->publish_weights();
  const at::Tensor before = values(*engine, "layers.1.mlp.up.weight").clone();
  const auto results = test::run_steps(*engine, c, 0, 1, 0, 1);
  EXPECT_TRUE(results[0].skipped);
  EXPECT_TRUE(std::isnan(results[0].grad_norm));
  EXPECT_TRUE(before.equal(values(*engine, "layers.1.mlp.up.weight")));
  EXPECT_TRUE(values(*engine, "layers.1.mlp.up.weight", 1).eq(0).all().item<bool>());
}

TEST_F(EngineTest, AllLabelsIgnoredIsNoGradient) {
  const auto engine = make({.samples = 2, .dropout = 0});
  Batch batch = test::make_batch(0, 2);
  batch.labels.fill_(kIgnoredLabel);
  const StepResult r = engine->step(std::span(&batch, 1), {.learning_rate = 1e-3F, .clip = 1});
  EXPECT_EQ(r.tokens, 0);
  EXPECT_EQ(r.loss, 0);
  EXPECT_EQ(r.grad_norm, 0);
}

// Logits of the last position do not depend on what else is in the batch, and the loss is theirs.
TEST_F(EngineTest, LogitsAndLossAgree) {
  const auto engine = make({.samples = 1, .dropout = 0});
  Batch batch = test::make_batch(3, 1);
  batch.labels.fill_(kIgnoredLabel);
  const int32_t label = 17;
  batch.labels.data_ptr<int32_t>()[12] = label;
  const at::Tensor logits = engine->logits(batch, 61);
  double sum = 0;
  for (int i = 0; i < 61; ++i) sum += std::exp(static_cast<double>(logits.data_ptr<float>()[i]));
  EXPECT_NEAR(engine->evaluate(batch).loss_sum, std::log(sum) - logits.data_ptr<float>()[label], 1e-5);
  EXPECT_TRUE(engine->logits(batch, 61).equal(logits));
}

TEST(InitialWeights, DoNotDependOnTheCut) {
  const ParameterSpec parameter{.name = "layers.3.mlp.up.weight", .shape = {37, 11}, .init = {.mean = 0.5, .std = 2}};
  const at::Tensor whole = at::empty({407}, at::kFloat), other = at::empty({407}, at::kFloat);
  const Box all = whole_box(parameter.shape);
  initial_weights(whole, parameter, 9, all);
  const at::Tensor matrix = whole.view({37, 11});
  for (const Box& box : std::vector<Box>{{0, 37, 3, 4}, {5, 20, 0, 11}, {5, 20, 10, 1}, {36, 1, 7, 4}, {4, 0, 0, 11}}) {
    const at::Tensor part = at::empty({box.count()}, at::kFloat);
    initial_weights(part, parameter, 9, box);
    EXPECT_TRUE(part.view({box.rows, box.columns})
                    .equal(matrix.narrow(0, box.row, box.rows).narrow(1, box.column, box.columns)))
        << box.row << ' ' << box.column;
  }
  for (const int64_t begin : {0, 1, 2, 3, 5, 400})
    for (const int64_t count : {0, 1, 4, 6})
      for (int64_t at = begin; const Box& box : boxes_of_run(all, begin, count)) {
        const at::Tensor part = at::empty({box.count()}, at::kFloat);
        initial_weights(part, parameter, 9, box);
        EXPECT_TRUE(part.equal(whole.narrow(0, at, box.count()))) << begin << ' ' << count;
        at += box.count();
      }
  EXPECT_NEAR(whole.mean().item<double>(), 0.5, 0.3);
  EXPECT_NEAR(whole.std().item<double>(), 2, 0.3);
  initial_weights(other, parameter, 10, all);
  EXPECT_FALSE(whole.equal(other));
}

TEST(InitialWeights, WithoutSpreadAreTheMean) {
  const at::Tensor norm = at::empty({9}, at::kBFloat16);
  initial_weights(norm, {.name = "norm.weight", .shape = {9}, .init = {.mean = 1, .std = 0}}, 9, {0, 1, 0, 9});
  EXPECT_TRUE(norm.eq(1).all().item<bool>());
}

// The weights a run of Partita 0.1 began with keep their seed: values of the generator as it was when libm made them.
TEST(InitialWeights, AreThoseOfEarlierVersions) {
  const at::Tensor w = at::empty({6}, at::kFloat);
  initial_weights(w, {.name = "layers.0.mlp.up.weight", .shape = {6}, .init = {.mean = 0, .std = 0.02}}, 1234,
                  {0, 1, 0, 6});
  const std::vector<float> expected = {0x1.93ed64p-10F, 0x1.e2b026p-6F,  -0x1.ac182p-8F,
                                       -0x1.93e668p-9F, -0x1.c3a654p-8F, 0x1.1cc32ep-8F};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(w.const_data_ptr<float>()[i], expected[i]) << i;
}

}  // namespace
}  // namespace partita::internal
