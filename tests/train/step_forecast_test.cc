#include "partita/train/step_forecast.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/comm/recording.h"
#include "partita/comm/world.h"
#include "partita/engine/engine.h"
#include "partita/train/build_model.h"

namespace partita::internal {
namespace {

using enum StepResource;
using testing::HasSubstr;
using testing::Not;

const at::Device kGpu(at::kCUDA, 0);

// GPT-2 of 12 layers and 256 channels, which has 9.7M parameters: 9.5M in matrices of layers.
Config small() {
  Config c;
  c.model = {.layers = 12, .hidden_size = 256, .heads = 4, .vocab_size = 1000, .max_length = 64};
  c.precision.compute = DType::bf16;
  c.train.sequence_length = 64;
  c.train.micro_batch = 2;
  c.train.global_batch = 2;
  c.parallel.layers_per_collective = 1;
  return c;
}

double parameters(const Config& c) { return static_cast<double>(parameter_count(c.model)); }

TEST(StepForecast, CountsWhatTheHostMoves) {
  Config c = small();
  const StepLoad plain = step_load(c, 1, kGpu);
  EXPECT_EQ(plain.down() + plain.up() + plain.total(host_memory) + plain.total(disk) + plain.total(network), 0);
  EXPECT_GT(plain.update_bytes, 28 * parameters(c));
  c.memory.optimizer = "host";
  const StepLoad host = step_load(c, 1, kGpu);
  EXPECT_EQ(host.update_bytes, 0);
  // Gradients of layers come in bf16, those of tables and vectors in fp32; weights go back in bf16; fp32 states are
  // read and written.
  const double matrices = 12.0 * 12 * 256 * 256;
  const double gradients = 2 * matrices + 4 * (parameters(c) - matrices);
  EXPECT_NEAR(host.down(), gradients, 0.001 * gradients);
  EXPECT_NEAR(host.up(), 2 * parameters(c), 0.001 * parameters(c));
  EXPECT_NEAR(host.total(host_memory), gradients + 24 * parameters(c) + 2 * parameters(c), 0.01 * parameters(c));
  EXPECT_EQ(host.total(disk), 0);
  c.memory.optimizer = "disk";
  const StepLoad filed = step_load(c, 1, kGpu);
  EXPECT_NEAR(filed.total(disk), 24 * parameters(c), 0.01 * parameters(c));
  EXPECT_EQ(filed.total(host_memory), host.total(host_memory));
  c.memory.optimizer = "host:0.3,disk:0.3";
  const StepLoad part = step_load(c, 1, kGpu);
  EXPECT_NEAR(part.total(disk), 0.3 * filed.total(disk), 0.06 * filed.total(disk));
  EXPECT_NEAR(part.total(host_memory), 0.6 * host.total(host_memory), 0.06 * host.total(host_memory));
  EXPECT_NEAR(part.update_bytes, 0.4 * plain.update_bytes, 0.06 * plain.update_bytes);
  // LAMB reads states and gradients once more, for norms; bf16 states are half, and are the weights.
  c.memory.optimizer = "disk";
  c.optimizer.kind = OptimizerKind::lamb;
  EXPECT_NEAR(step_load(c, 1, kGpu).total(disk), 36 * parameters(c), 0.01 * parameters(c));
  c.optimizer.kind = OptimizerKind::adamw;
  c.precision.states = DType::bf16;
  const StepLoad half = step_load(c, 1, kGpu);
  EXPECT_NEAR(half.total(disk), 12 * parameters(c), 0.01 * parameters(c));
  EXPECT_NEAR(half.total(host_memory), gradients + 12 * parameters(c), 0.01 * parameters(c));
}

TEST(StepForecast, CountsOffloadedActivations) {
  Config c = small();
  c.train.micro_batch = 2, c.train.global_batch = 6;
  c.memory.offload_activations = 6;
  const StepLoad six = step_load(c, 1, kGpu);
  c.memory.offload_activations = 12;
  const StepLoad twelve = step_load(c, 1, kGpu);
  EXPECT_GT(six.down(), 0);
  EXPECT_EQ(six.down(), six.up());
  EXPECT_DOUBLE_EQ(twelve.down() * 4, six.down() * 10) << "the last two stay on the device";
  EXPECT_DOUBLE_EQ(six.forward.down * 3, six.down()) << "of each micro-batch";
}

TEST(StepForecast, CountsWhatIsMadeAgain) {
  Config c = small();
  const StepLoad none = step_load(c, 1, kGpu);
  c.memory.recompute = Recompute::full;
  const StepLoad full = step_load(c, 1, kGpu);
  EXPECT_EQ(full.forward.flops, none.forward.flops);
  EXPECT_GT(full.backward.flops, 1.25 * none.backward.flops);
  EXPECT_LT(full.backward.flops, 1.5 * none.backward.flops);
  c.memory.recompute = Recompute::none;
  c.train.global_batch = 4, c.train.micro_batch = 4;
  const StepLoad one = step_load(c, 1, kGpu);
  c.train.micro_batch = 1;
  const StepLoad four = step_load(c, 1, kGpu);
  EXPECT_NEAR(four.total(compute), one.total(compute), 1e-9 * one.total(compute));
  EXPECT_GT(four.total(device_memory), one.total(device_memory) + 20 * parameters(c)) << "gradients are added";
}

Batch batch_of_ones() {
  const auto ids = at::TensorOptions(at::kInt);
  return {.tokens = at::ones({2, 64}, ids),
          .labels = at::ones({2, 64}, ids),
          .positions = at::arange(64, ids).expand({2, 64}).contiguous(),
          .samples = {0, 1}};
}

// The bytes that collectives of an engine move, over ranks that are not there.
TEST(StepForecast, CountsTheBytesOfCollectives) {
  constexpr int kRanks = 4;
  for (int stage = 0; stage <= 3; ++stage)
    for (const int64_t micro_batches : {1, 3}) {
      Config c = small();
      c.model.layers = 5;
      c.parallel.zero_stage = stage;
      c.train.global_batch = kRanks * c.train.micro_batch * micro_batches;
      RecordingCommunicator self("self", 0, 1), data("data", 0, kRanks);
      Engine engine(training_blocks(c, at::kCPU), make_zero(stage, self, data), data,
                    training_options(c, kRanks, at::kCPU));
      engine.initialize(1);
      const std::vector<Batch> batches(static_cast<size_t>(micro_batches), batch_of_ones());
      (void)engine.step(batches, {.learning_rate = 1e-3});
      data.clear();
      (void)engine.step(batches, {.step = 1, .update = 1, .learning_rate = 1e-3});
      double moved = 0;
      for (const CollectiveRecord& r : data.records())
        if (r.bytes > 1024) moved += static_cast<double>(r.bytes) * (r.kind == "all_reduce" ? 2 : 1) * 3 / 4;
      const StepLoad load = step_load(c, kRanks, at::kCPU);
      EXPECT_NEAR(load.total(network), moved, 1e-9 * moved) << "stage " << stage << ", " << micro_batches;
    }
}

// The same of tensor-parallel ranks.
TEST(StepForecast, CountsTheBytesOfExchanges) {
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (const Switch sequence : {Switch::on, Switch::off})
      for (const Recompute recompute : {Recompute::none, Recompute::mlp, Recompute::full}) {
        Config c = small();
        c.model.kind = kind;
        c.model.dropout = c.model.embedding_dropout = c.model.attention_dropout = 0;
        c.parallel.tensor = 2;
        c.parallel.sequence = sequence;
        c.memory.recompute = recompute;
        RecordingCommunicator self("self", 0, 1), data("data", 0, 1), tensor("tensor", 0, 2);
        Zero zero = make_zero(0, self, data);
        zero.tensor = &tensor;
        Engine engine(training_blocks(c, at::kCPU), zero, data, training_options(c, 2, at::kCPU));
        engine.initialize(1);
        tensor.clear();
        (void)engine.step(std::vector<Batch>{batch_of_ones()}, {.learning_rate = 1e-3});
        double moved = 0;
        for (const CollectiveRecord& r : tensor.records())
          if (r.bytes > 512) moved += static_cast<double>(r.bytes) * (r.kind == "all_reduce" ? 2 : 1) / 2;
        const StepLoad load = step_load(c, 2, at::kCPU);
        EXPECT_NEAR(load.total(network), moved, 0.001 * moved)
            << static_cast<int>(kind) << ", rows split: " << name_of(sequence) << ", " << name_of(recompute);
      }
}

// Keys and values of context-parallel ranks, and their gradients.
TEST(StepForecast, CountsTheBytesOfContexts) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    Config c = small();
    c.model.dropout = c.model.embedding_dropout = c.model.attention_dropout = 0;
    c.train.sequence_length = 128, c.model.max_length = 128;
    c.parallel.context = 2;
    c.memory.recompute = recompute;
    RecordingCommunicator self("self", 0, 1), data("data", 0, 2), context("context", 0, 2);
    Zero zero = make_zero(0, self, data);
    zero.context = &context;
    Engine engine(training_blocks(c, at::kCPU), zero, data, training_options(c, 2, at::kCPU));
    engine.initialize(1);
    (void)engine.step(std::vector<Batch>{batch_of_ones()}, {.learning_rate = 1e-3});
    double moved = 0;
    for (const CollectiveRecord& r : context.records())
      if (r.bytes > 512) moved += static_cast<double>(r.bytes) * (r.kind == "all_reduce" ? 2 : 1) / 2;
    const StepLoad load = step_load(c, 2, at::kCPU);
    EXPECT_NEAR(load.forward.exchanged + load.backward.exchanged, moved, 0.001 * moved) << name_of(recompute);
  }
}

TEST(StepForecast, CountsExchangesAndMessages) {
  Config c = small();
  c.parallel.tensor = 2;
  const double stream = 2 * 64 * 256 * 2 / 2.0;  // bytes of half the rows of the residual stream
  const StepLoad tensor = step_load(c, 2, kGpu);
  EXPECT_EQ(tensor.forward.exchanged, (4 * 12 + 1) * stream);
  EXPECT_NEAR(tensor.total(compute), step_load(small(), 1, kGpu).total(compute) / 2, 0.02 * tensor.total(compute));
  c.parallel.tensor = 1, c.parallel.pipeline = 2;
  c.train.global_batch = 8;
  const StepLoad first = step_load(c, 2, kGpu, {.pipeline = 0});
  EXPECT_DOUBLE_EQ(first.bubble, 1.0 / 4);
  EXPECT_EQ(first.forward.moved, 0) << "nothing arrives at the first stage";
  EXPECT_EQ(first.backward.moved, 2 * 2 * 64 * 256 * 2);
  c.parallel.schedule = PipelineSchedule::zb_h1;
  EXPECT_DOUBLE_EQ(step_load(c, 2, kGpu).bubble, 1.0 / 12);
  const StepForecast slowest = forecast_step(c, 2, kGpu, default_rates(DType::bf16, kGpu));
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_GE(slowest.time.seconds,
              step_time(step_load(c, 2, kGpu, {.pipeline = stage}), default_rates(DType::bf16, kGpu)).seconds);
}

// Steps that were measured on H100 and H200 (docs/performance.md), which are estimated to an eighth.
TEST(StepForecast, IsNearMeasuredSteps) {
  const ModelConfig gpt2_124m{.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50304, .max_length = 1024},
      gpt2_1b{.layers = 48, .hidden_size = 1600, .heads = 25, .vocab_size = 50304, .max_length = 1024},
      llama_1b{.kind = ModelKind::llama,
               .layers = 22,
               .hidden_size = 2048,
               .heads = 32,
               .kv_heads = 4,
               .ffn_hidden_size = 5632,
               .vocab_size = 32000,
               .max_length = 2048},
      llama_7b{.kind = ModelKind::llama,
               .layers = 32,
               .hidden_size = 4096,
               .heads = 32,
               .ffn_hidden_size = 11008,
               .vocab_size = 32000,
               .max_length = 4096};
  struct Measured {
    ModelConfig model;
    int64_t samples;
    double milliseconds;
    void (*change)(Config&) = [](Config&) {};
  };
  for (const Measured& m :
       {Measured{gpt2_124m, 64, 110.9},
        {gpt2_1b, 8, 172.2},
        {llama_1b, 8, 215.1},
        {llama_1b, 8, 168.5, [](Config& c) { c.precision.fp8 = Fp8Recipe::delayed; }},
        {llama_7b, 4, 1327,
         [](Config& c) {
           c.precision.states = DType::bf16;
           c.memory.recompute = Recompute::mlp, c.memory.recompute_full_layers = 4;
         }},
        {llama_7b, 4, 2733, [](Config& c) { c.memory.recompute = Recompute::full, c.memory.optimizer = "host"; }}}) {
    Config c;
    c.model = m.model;
    c.model.dropout = c.model.embedding_dropout = c.model.attention_dropout = 0;
    c.precision.compute = DType::bf16;
    c.train.sequence_length = m.model.max_length;
    c.train.micro_batch = c.train.global_batch = m.samples;
    m.change(c);
    const double found = 1e3 * forecast_step(c, 1, kGpu, default_rates(DType::bf16, kGpu)).time.seconds;
    EXPECT_NEAR(found, m.milliseconds, m.milliseconds / 8) << m.model.hidden_size;
  }
}

TEST(StepForecast, ReadsLikeATable) {
  Config c = small();
  c.memory.optimizer = "host:0.5";
  StepRates rates = default_rates(DType::bf16, kGpu);
  rates[host_memory] = 1e9;
  const std::string text = step_text(forecast_step(c, 1, kGpu, rates), rates, 128);
  EXPECT_THAT(text, HasSubstr("per step and rank           amount            at         time\n"));
  EXPECT_THAT(text, testing::ContainsRegex("  host memory +[0-9.]+ MB +1.00 GB/s +[0-9.]+ ms\n"));
  EXPECT_THAT(text, testing::ContainsRegex("  device to host +[0-9.]+ MB +50.0 GB/s +[0-9]+ us|  device to host"));
  EXPECT_THAT(text, testing::ContainsRegex("\nstep: about [0-9.]+ ms, [0-9.]+k? tokens/s; bound by host memory "
                                           "\\(without it [0-9.]+ ms\\)$"));
  EXPECT_THAT(text, Not(HasSubstr("disk")));
  EXPECT_THAT(text, Not(HasSubstr("other ranks")));
}

}  // namespace
}  // namespace partita::internal
