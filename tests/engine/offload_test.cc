// Offload changes where states and gradients are stored, and no bit of the training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "partita/comm/world.h"
#include "tests/engine/zero_reference.h"
#include "tests/support/error_message.h"
#include "tests/support/late_copies.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;

// Copies at once, then as late as may be, then at random.
std::vector<std::function<std::unique_ptr<Copies>()>> all_copies() {
  const auto late = [](unsigned seed, unsigned share) {
    return [=]() -> std::unique_ptr<Copies> { return std::make_unique<test::LateCopies>(seed, share); };
  };
  return {nullptr, late(1, 0), late(2, 20), late(3, 60)};
}

class OffloadTest : public testing::Test {
 protected:
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();

  std::unique_ptr<Engine> make(const EngineCase& c) { return test::make_engine(c, *self_, *self_); }

  void expect_same_training(EngineCase c, const std::string& what) {
    const Offload what_moves = std::exchange(c.offload, {});
    const auto plain = make(c);
    const auto expected = test::run_steps(*plain, c, 0, 1, 0, 5);
    c.poison = true;
    for (const auto& copies : all_copies()) {
      c.offload = what_moves;
      c.offload.copies = copies;
      const auto engine = make(c);
      const auto found = test::run_steps(*engine, c, 0, 1, 0, 5);
      test::expect_same_bits(found, expected, *engine, *plain, what);
    }
  }
};

struct Types {
  DType compute, states;
};

TEST_F(OffloadTest, OptimizerGivesTheSameBits) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (const Types types : {Types{DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}, {DType::bf16, DType::bf16}})
      for (int stage : {0, 1, 2, 3}) {
        // Each stage with one and with several micro-batches, of one of the kinds.
        const int micro_batches = (kind == ModelKind::gpt2) == (stage % 2 == 0) ? 1 : 3;
        expect_same_training({.kind = kind,
                              .stage = stage,
                              .micro_batches = micro_batches,
                              .fp32_gradients = true,
                              .compute = types.compute,
                              .states = types.states,
                              .offload = {.optimizer = 1}},
                             std::string(name_of(types.compute)) + " with states in " +
                                 std::string(name_of(types.states)) + ", stage " + std::to_string(stage) + ", " +
                                 std::to_string(micro_batches) + " micro-batches");
      }
}

// What stays on the device is updated there, with the same bits.
TEST_F(OffloadTest, FractionsGiveTheSameBits) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb})
    for (const auto& [host, disk] : {std::pair(0.2, 0.0), {0.5, 0.0}, {0.9, 0.0}, {0.0, 0.4}, {0.4, 0.6}, {0.0, 1.0}})
      for (const int stage : {0, 3}) {
        const Types types = ++number % 3 == 0 ? Types{DType::fp32, DType::fp32}
                            : number % 3 == 1 ? Types{DType::bf16, DType::fp32}
                                              : Types{DType::bf16, DType::bf16};
        expect_same_training({.kind = stage == 0 ? ModelKind::gpt2 : ModelKind::llama,
                              .stage = stage,
                              .micro_batches = number % 4 == 0 ? 2 : 1,
                              .compute = types.compute,
                              .states = types.states,
                              .optimizer = optimizer,
                              .offload = {.optimizer = host, .disk = disk, .disk_folder = folder.path()}},
                             fmt::format("host {}, disk {}, stage {}, number {}", host, disk, stage, number));
      }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EngineCase half{.offload = {.optimizer = 0.5}};
  const auto engine = make(half);
  EXPECT_GT(engine->memory().host, 0);
  EXPECT_GT(engine->memory().optimizer, 0);
}

// Full weights exist around their use only, at every stage: of trained units with their states, and of frozen ones.
TEST_F(OffloadTest, WeightsGiveTheSameBits) {
  const TemporaryDirectory folder;
  const auto base_frozen = [](const ParameterSpec& p) { return p.name.starts_with("layers."); };
  int number = 0;
  for (const auto& [host, disk] : {std::pair(1.0, 0.0), {0.5, 0.0}, {0.0, 1.0}, {0.4, 0.6}})
    for (const Types types : {Types{DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}, {DType::bf16, DType::bf16}})
      for (const int stage : {0, 2, 3})
        for (const bool states_on_disk : {false, true}) {
          ++number;
          EngineCase c{.kind = number % 2 == 0 ? ModelKind::gpt2 : ModelKind::llama,
                       .tied_head = number % 3 == 0 ? TiedHead::yes : TiedHead::no,
                       .stage = stage,
                       .micro_batches = number % 4 == 0 ? 2 : 1,
                       .recompute = number % 5 == 0 ? Recompute::full : Recompute::none,
                       .compute = types.compute,
                       .states = types.states,
                       .optimizer = number % 7 == 0 ? OptimizerKind::lamb : OptimizerKind::adamw,
                       .offload = {.optimizer = states_on_disk ? 0.0 : 1.0,
                                   .disk = states_on_disk ? 1.0 : 0.0,
                                   .disk_folder = folder.path(),
                                   .weights = host,
                                   .weights_disk = disk,
                                   .activations = number % 6 == 0 ? 4 : 0}};
          if (number % 8 == 0) c.frozen = base_frozen;
          expect_same_training(c, fmt::format("host {}, disk {}, number {}", host, disk, number));
        }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Gradients of micro-batches are added in the same order, in fp32, wherever that is.
TEST_F(OffloadTest, GradientsAddedOnTheHostGiveTheSameBits) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const double host : {1.0, 0.5})
    for (const int stage : {2, 3})
      for (const int micro_batches : {2, 3})
        for (const DType compute : {DType::fp32, DType::bf16}) {
          ++number;
          expect_same_training(
              {.kind = number % 2 == 0 ? ModelKind::gpt2 : ModelKind::llama,
               .stage = stage,
               .micro_batches = micro_batches,
               .compute = compute,
               .optimizer = number % 5 == 0 ? OptimizerKind::lamb : OptimizerKind::adamw,
               .offload = {.optimizer = number % 3 == 0 ? 0 : host,
                           .disk = number % 3 == 0 ? host : 0,
                           .disk_folder = folder.path(),
                           .weights = number % 4 == 0 ? host : 0,
                           .gradients = true}},
              fmt::format("host {}, stage {}, {} micro-batches, number {}", host, stage, micro_batches, number));
        }
}

// Where micro-batches are added by matmuls, up to their rounding.
TEST_F(OffloadTest, GradientsAddedOnTheHostAreThoseOfEveryStage) {
  for (const int stage : {0, 1})
    for (const DType compute : {DType::fp32, DType::bf16}) {
      EngineCase c{.stage = stage, .micro_batches = 3, .compute = compute};
      const auto plain = make(c);
      const auto expected = test::run_steps(*plain, c, 0, 1, 0, 5);
      const EngineMemory without = plain->memory();
      c.offload = {.optimizer = 1, .gradients = true, .copies = all_copies()[2]};
      c.poison = true;
      const auto engine = make(c);
      test::expect_equal(test::run_steps(*engine, c, 0, 1, 0, 5), expected, 1e-5, fmt::format("stage {}", stage));
      EXPECT_LT(engine->memory().gradients, without.gradients);
    }
}

// Without clipping an early update is the update.
TEST_F(OffloadTest, EarlyUpdatesGiveTheSameBits) {
  int number = 0;
  for (const int stage : {0, 2, 3})
    for (const int micro_batches : {1, 2})
      for (const Types types :
           {Types{DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}, {DType::bf16, DType::bf16}}) {
        const TemporaryDirectory folder;
        ++number;
        expect_same_training({.kind = number % 2 == 0 ? ModelKind::gpt2 : ModelKind::llama,
                              .stage = stage,
                              .micro_batches = micro_batches,
                              .compute = types.compute,
                              .states = types.states,
                              .optimizer = number % 5 == 0 ? OptimizerKind::sgd : OptimizerKind::adamw,
                              .clip = 0,
                              .offload = {.optimizer = number % 4 == 0 ? 0.5 : 1.0,
                                          .disk = number % 4 == 0 ? 0.5 : 0,
                                          .disk_folder = folder.path(),
                                          .weights = number % 3 == 0 ? 1.0 : 0,
                                          .gradients = stage >= 2 && number % 3 == 1,
                                          .early_updates = true}},
                             fmt::format("early updates, number {}", number));
      }
}

// They clip by the norm of the step before, and the first step by its own.
TEST_F(OffloadTest, EarlyUpdatesClipByThePreviousNorm) {
  EngineCase c{.compute = DType::bf16, .clip = 0.5F};
  const auto plain = make(c);
  c.offload = {.optimizer = 0.6, .early_updates = true, .copies = all_copies()[2]};
  const auto engine = make(c);
  double previous = 0;
  for (int64_t step = 0; step < 5; ++step) {
    const auto batches = test::rank_batches(c, step, 0, 1);
    StepInput input{.step = step, .update = step, .learning_rate = 3e-3F, .clip = c.clip, .previous_norm = previous};
    const StepResult found = engine->step(batches, input);
    const double factor = std::min(1.0, 0.5 / ((step == 0 ? found.grad_norm : previous) + 1e-6));
    EXPECT_LT(factor, 1) << "nothing is clipped";
    // The clip of this step that gives the same factor.
    input.clip = static_cast<float>(factor * (found.grad_norm + 1e-6));
    const StepResult expected = plain->step(batches, input);
    EXPECT_NEAR(found.loss, expected.loss, 1e-6) << "step " << step;
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm) << "step " << step;
    previous = found.grad_norm;
  }
}

// Such as that of a first step that was skipped: the updates of the next one wait for its own norm.
TEST_F(OffloadTest, EarlyUpdatesNeedAPreviousNorm) {
  const EngineCase plain_case{.clip = 0.5F};
  EngineCase c = plain_case;
  c.offload = {.optimizer = 1, .early_updates = true};
  const auto plain = make(plain_case), engine = make(c);
  for (const double previous : {std::nan(""), std::numeric_limits<double>::infinity(), 0.0}) {
    const auto batches = test::rank_batches(c, 0, 0, 1);
    const StepInput input{.learning_rate = 3e-3F, .clip = 0.5F, .previous_norm = previous};
    const StepResult found = engine->step(batches, input), expected = plain->step(batches, input);
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.grad_norm, expected.grad_norm);
  }
}

TEST_F(OffloadTest, WhatIsNotPossibleIsAnError) {
  const auto error = [&](Offload offload, OptimizerKind kind = OptimizerKind::adamw) {
    const EngineCase c{.optimizer = kind, .offload = std::move(offload)};
    return error_message([&] { (void)make(c); });
  };
  EXPECT_EQ(error({.optimizer = 1.5}), "EngineOptions: offload.optimizer is 1.5, expected a fraction from 0 to 1");
  EXPECT_EQ(error({.optimizer = 1, .weights = 0.6, .weights_disk = 0.5}),
            "EngineOptions: offload.weights 0.6 and offload.weights_disk 0.5 are 1.1 together, expected at most 1");
  EXPECT_THAT(error({.disk = 1}), testing::HasSubstr("without a folder: set offload.disk_folder"));
  EXPECT_THAT(error({.optimizer = 1, .early_updates = true}, OptimizerKind::lamb), testing::HasSubstr("with LAMB"));
}

TEST_F(OffloadTest, EarlyUpdatesOfAGradientThatIsNotFiniteEndTheRun) {
  EngineCase c{.frozen = [](const ParameterSpec& p) { return p.name == "embedding.weight"; },
               .clip = 0,
               .offload = {.optimizer = 1, .early_updates = true}};
  const auto engine = make(c);
  for (const OwnedBox& owned : engine->owned_boxes()) owned.values[0].fill_(1e30);
  engine->publish_weights();
  EXPECT_THAT(error_message([&] { (void)test::run_steps(*engine, c, 0, 1, 7, 8); }),
              testing::HasSubstr("the gradient norm of step 7 is"));
}

// The device keeps two buffers of layers, one of the embedding and the head, and the vectors.
TEST_F(OffloadTest, WeightsAreTheHosts) {
  const EngineCase plain{.tied_head = TiedHead::no, .compute = DType::bf16, .offload = {.optimizer = 1}};
  EngineCase offloaded = plain;
  offloaded.offload.weights = 1;
  const auto engine = make(offloaded);
  const EngineMemory m = engine->memory(), without = make(plain)->memory();
  int64_t vectors = 0, layer = 0, table = 0, all = 0;
  for (const Unit& unit : engine->plan().units) {
    const int64_t count = unit.layout.count;
    all += count;
    if (unit.pool == BufferPool::persistent) vectors += count;
    if (unit.pool == BufferPool::layers) layer = std::max(layer, count);
    if (unit.pool == BufferPool::embedding_and_head) table = std::max(table, count);
  }
  EXPECT_EQ(without.weights, 2 * all);
  EXPECT_EQ(m.weights, 2 * (2 * layer + table + vectors));
  // Only vectors are still staged on their way to the device.
  const int64_t largest = std::max({vectors, layer, table});
  EXPECT_EQ(m.host, without.host + 2 * (all - vectors) - 4 * largest + 4 * vectors);
  EXPECT_EQ(m.gradients, without.gradients);
}

TEST_F(OffloadTest, EveryOptimizerAndFrozenParameters) {
  for (OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lamb})
    for (int layers_per_unit : {1, 2, 5})
      expect_same_training({.compute = DType::bf16,
                            .optimizer = optimizer,
                            .offload = {.optimizer = 1},
                            .layers_per_unit = layers_per_unit},
                           "optimizer " + std::to_string(static_cast<int>(optimizer)));
  const auto some_frozen = [](const ParameterSpec& p) {
    return p.name.starts_with("embedding.") || p.name.starts_with("layers.1.");
  };
  expect_same_training(
      {.tied_head = TiedHead::no, .frozen = some_frozen, .compute = DType::bf16, .offload = {.optimizer = 1}},
      "frozen in part");
  expect_same_training(
      {.kind = ModelKind::llama, .lora = {.rank = 2, .targets = "q_proj,down_proj"}, .offload = {.optimizer = 1}},
      "adapters");
}

TEST_F(OffloadTest, ActivationsGiveTheSameBits) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (Recompute recompute : {Recompute::none, Recompute::mlp, Recompute::full})
      for (int layers : {1, 3, 4, 9})
        expect_same_training({.kind = kind,
                              .micro_batches = (kind == ModelKind::gpt2) == (layers < 4) ? 1 : 2,
                              .recompute = recompute,
                              .compute = DType::bf16,
                              .offload = {.optimizer = layers == 4 ? 1.0 : 0.0, .activations = layers}},
                             std::to_string(layers) + " layers, recompute " + name_of(recompute));
  const auto first_frozen = [](const ParameterSpec& p) {
    return p.name.starts_with("embedding.") || p.name.starts_with("layers.0.");
  };
  expect_same_training({.tied_head = TiedHead::no, .frozen = first_frozen, .offload = {.activations = 4}}, "frozen");
}

// Two layers' worth of slots stay on the device, and the rest moves.
TEST_F(OffloadTest, ActivationsAreTheHosts) {
  const auto memory = [&](int layers) {
    EngineCase c{.samples = 4};
    c.offload.activations = layers;
    return make(c)->memory();
  };
  const EngineMemory none = memory(0), three = memory(3), four = memory(4), all = memory(5);
  const int64_t layer = four.host - three.host;
  EXPECT_GT(layer, 0);
  EXPECT_EQ(memory(2).host, 0);
  EXPECT_EQ(all.host, 3 * layer);
  EXPECT_EQ(all.activations, none.activations - 3 * layer);
  EXPECT_EQ(three.activations, none.activations - layer);
}

// The host still updates when an evaluation or the next forward begins, or when somebody looks at the weights.
TEST_F(OffloadTest, EvaluationSeesTheLastUpdate) {
  EngineCase c{.compute = DType::bf16};
  const auto plain = make(c);
  c.offload = {.optimizer = 1, .copies = all_copies()[1]};
  const auto engine = make(c);
  for (int64_t step = 0; step < 4; ++step) {
    (void)test::run_steps(*plain, c, 0, 1, step, step + 1);
    (void)test::run_steps(*engine, c, 0, 1, step, step + 1);
    EXPECT_EQ(engine->evaluate(test::make_batch(50, 2)).loss_sum, plain->evaluate(test::make_batch(50, 2)).loss_sum);
    EXPECT_TRUE(engine->logits(test::make_batch(9, 1), 61).equal(plain->logits(test::make_batch(9, 1), 61)));
  }
}

// Neither on the host nor on the device, where a skipped step may lie between others.
TEST_F(OffloadTest, AStepThatIsSkippedChangesNothing) {
  const TemporaryDirectory folder;
  for (const auto& [host, disk] : {std::pair(1.0, 0.0), {0.5, 0.0}, {0.3, 0.3}, {0.0, 1.0}}) {
    EngineCase c{.fp32_gradients = true, .compute = DType::fp16};
    EngineCase offloaded = c;
    offloaded.offload = {.optimizer = host, .disk = disk, .disk_folder = folder.path(), .copies = all_copies()[2]};
    const auto plain = make(c), engine = make(offloaded);
    const Batch batch = test::make_batch(50, 2);
    for (const float loss_scale : {1e30F, 1.0F, 1e30F, 1e30F, 1.0F}) {
      std::vector<at::Tensor> before;
      for (const OwnedBox& run : engine->owned_boxes())
        for (const at::Tensor& values : run.values) before.push_back(values.clone());
      c.loss_scale = offloaded.loss_scale = loss_scale;
      const bool skipped = test::run_steps(*engine, offloaded, 0, 1, 0, 1).front().skipped;
      (void)test::run_steps(*plain, c, 0, 1, 0, 1);
      EXPECT_EQ(skipped, loss_scale > 1);
      EXPECT_EQ(engine->evaluate(batch).loss_sum, plain->evaluate(batch).loss_sum) << host << ", " << disk;
      size_t next = 0;
      bool same = true;
      for (const OwnedBox& run : engine->owned_boxes())
        for (const at::Tensor& values : run.values) same &= values.equal(before[next++]);
      EXPECT_EQ(same, skipped) << host << ", " << disk;
    }
  }
}

// The device holds the weights and two buffers of gradients; the host the rest.
TEST_F(OffloadTest, MemoryIsTheHosts) {
  const EngineCase plain{.compute = DType::bf16};
  EngineCase offloaded = plain;
  offloaded.offload.optimizer = 1;
  const auto engine = make(offloaded);
  const EngineMemory m = engine->memory(), without = make(plain)->memory();
  EXPECT_EQ(m.master, 0);
  EXPECT_EQ(m.optimizer, 0);
  EXPECT_EQ(m.weights, without.weights);
  EXPECT_EQ(m.activations, without.activations);
  int64_t all = 0, matrices = 0, rest = 0, largest = 0;
  int64_t staging = 0;  // of new weights, in two buffers that are used in turn
  for (const Unit& unit : engine->plan().units) {
    const int64_t count = unit.layout.count;
    all += count;
    (unit.pool == BufferPool::layers ? matrices : rest) += count;
    if (unit.pool == BufferPool::layers) largest = std::max(largest, count);
    staging = std::max(staging, count);
  }
  EXPECT_EQ(m.gradients, 2 * 2 * largest + 4 * rest);
  EXPECT_EQ(m.host, 12 * all + 2 * matrices + 4 * rest + 2 * 2 * staging);
}

}  // namespace
}  // namespace partita::internal
