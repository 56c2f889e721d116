#include "tests/engine/small_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "partita/engine/initial_weights.h"
#include "partita/ops/cross_entropy.h"

namespace partita::internal::test {

ModelConfig small_model(ModelKind kind, double dropout) {
  ModelConfig model{.kind = kind,
                    .layers = 5,
                    .hidden_size = 20,
                    .heads = 2,
                    .ffn_hidden_size = 52,
                    .vocab_size = 61,
                    .max_length = 13,
                    .dropout = dropout,
                    .embedding_dropout = dropout,
                    .attention_dropout = dropout};
  if (kind == ModelKind::llama) {
    model.heads = 4;
    model.kv_heads = 2;
    model.head_width = 6;
    model.rope_factor = 8;
    model.rope_original_length = 4;
  }
  return model;
}

ModelConfig model_of(const EngineCase& c) {
  ModelConfig model = small_model(c.kind, c.dropout);
  model.tied_head = c.tied_head;
  if (c.heads > 0) model.heads = c.heads;
  const bool llama = c.kind == ModelKind::llama;
  if (c.fp8) model.hidden_size = 32, model.ffn_hidden_size = 48, model.head_width = llama ? 8 : 0;
  if (c.fp8 && c.heads > 0) {
    model.hidden_size = llama ? 32 : 16 * c.heads;
    model.ffn_hidden_size = 192, model.head_width = llama ? 16 : 0;
  }
  return model;
}

namespace {

// Every engine of a test takes the memory that was predicted for it.
void expect_same(const EngineMemory& predicted, const EngineMemory& taken) {
  EXPECT_EQ(predicted.weights, taken.weights);
  EXPECT_EQ(predicted.gradients, taken.gradients);
  EXPECT_EQ(predicted.master, taken.master);
  EXPECT_EQ(predicted.optimizer, taken.optimizer);
  EXPECT_EQ(predicted.activations, taken.activations);
  EXPECT_EQ(predicted.temporaries, taken.temporaries);
  EXPECT_EQ(predicted.shared, taken.shared);
  EXPECT_EQ(predicted.host, taken.host);
  EXPECT_EQ(predicted.disk, taken.disk);
}

// Takes the blocks of a pipeline stage, cut into equal numbers, out of those of the model.
PipelineStage take_stage(const EngineCase& c, const Communicator& pipeline,
                         const std::function<bool(const ParameterSpec&)>& frozen,
                         std::vector<std::unique_ptr<Block>>& blocks) {
  PipelineStage stage{
      .shape = {.schedule = c.schedule, .ranks = pipeline.size(), .chunks = c.chunks, .micro_batches = c.micro_batches},
      .rank = pipeline.rank(),
      .chunks = {0},
      .two_gradients = c.dropout > 0,
      .open_weights = c.open_weights};
  const StagePlacement placement = stage.placement();
  std::vector<std::unique_ptr<Block>> own;
  std::vector<bool> trains;  // [block]
  for (const auto& block : blocks) {
    trains.push_back(false);
    for (const ParameterSpec& p : block->parameters())
      if (!frozen || !frozen(p)) trains.back() = true;
  }
  const auto first = [&](int s) { return std::ssize(trains) * s / placement.stages(); };
  for (int chunk = 0; chunk < c.chunks; ++chunk) {
    const int s = placement.stage(stage.rank, chunk);
    stage.trains_below.push_back(std::find(trains.begin(), trains.begin() + first(s), true) !=
                                 trains.begin() + first(s));
    for (int64_t b = first(s); b < first(s + 1); ++b) own.push_back(std::move(blocks[static_cast<size_t>(b)]));
    stage.chunks.push_back(static_cast<int>(own.size()));
  }
  blocks = std::move(own);
  if (model_of(c).has_tied_head() && placement.embedding_rank() != placement.head_rank())
    stage.tied = "embedding.token.weight";
  return stage;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const EngineCase& c, Communicator& self, Communicator& data,
                                    const ModelGroups& groups, Shape shape) {
  const ModelConfig model = model_of(c);
  TensorSplit split;
  if (groups.tensor != nullptr)
    split = {.rank = groups.tensor->rank(),
             .ranks = groups.tensor->size(),
             .sequence = c.sequence,
             .least_piece = c.least_piece};
  auto frozen = c.frozen;
  if (!frozen && c.lora.rank > 0) frozen = is_base;
  std::vector<std::unique_ptr<Block>> blocks =
      make_blocks(model, c.compute, c.lora, at::kCPU, c.fp8, split, c.context, c.leaves_operands, c.division);
  PipelineStage stage;
  if (groups.pipeline != nullptr) stage = take_stage(c, *groups.pipeline, frozen, blocks);
  const EngineOptions options{.shape = {shape.samples > 0 ? shape.samples : c.samples,
                                        shape.length > 0 ? shape.length : c.length / c.context.ranks},
                              .micro_batches = c.micro_batches,
                              .width = model.hidden_size,
                              .compute = c.compute,
                              .states = c.states,
                              .fp32_gradients = c.fp32_gradients,
                              .recompute = c.recompute,
                              .full_recompute_layers = c.full_recompute_layers,
                              .layers_per_unit = c.layers_per_unit,
                              .actions = c.actions,
                              .tensor = split,
                              .context = c.context,
                              .pipeline = stage,
                              // At 1e-8 Adam makes a whole step of a gradient that is only rounding, which differs
                              // from processor to processor.
                              .optimizer = {.kind = c.optimizer, .epsilon = 1e-6},
                              .frozen = frozen,
                              .offload = c.offload,
                              .delayed_scales = c.delayed_scales,
                              .seed = 7,
                              .poison = c.poison,
                              .check_messages = c.check_messages};
  Zero zero = make_zero(c.stage, self, data);
  zero.tensor = groups.tensor, zero.key_value = groups.key_value;
  zero.pipeline = groups.pipeline, zero.ends = groups.ends, zero.edges = groups.edges;
  zero.context = groups.context;
  const EngineMemory predicted = predict_memory(blocks, zero.sharding, options);
  auto engine = std::make_unique<Engine>(std::move(blocks), zero, data, options);
  expect_same(predicted, engine->memory());
  // Adapters not zero, so that all of them have gradients from the first step on.
  engine->set_weights([](const ParameterSpec& p, const Box& box, const at::Tensor& out) {
    ParameterSpec wide = p;
    if (p.adapter) wide.init = {.mean = 0, .std = 0.1};
    initial_weights(out, wide, 42, box);
  });
  return engine;
}

Batch make_batch(int64_t first, int64_t count) {
  Batch batch;
  for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = at::empty({count, 13}, at::kInt);
  for (int64_t s = 0; s < count; ++s) {
    std::mt19937 random(static_cast<unsigned>(first + s));
    for (int64_t i = 0; i < 13; ++i) {
      const int64_t at = s * 13 + i;
      batch.tokens.data_ptr<int32_t>()[at] = static_cast<int32_t>(random() % 61);
      batch.labels.data_ptr<int32_t>()[at] =
          random() % 12 < static_cast<unsigned>((first + s) % 6) ? kIgnoredLabel : static_cast<int32_t>(random() % 61);
      batch.positions.data_ptr<int32_t>()[at] = static_cast<int32_t>(i);
    }
    batch.samples.push_back(first + s);
  }
  return batch;
}

Batch make_batch(const EngineCase& c, int64_t first, int64_t count) {
  Batch batch = make_batch(first, count);
  for (at::Tensor* t : {&batch.tokens, &batch.labels, &batch.positions}) *t = t->narrow(1, 0, c.length).contiguous();
  if (c.documents) {
    batch.first_keys = at::empty_like(batch.tokens);
    for (int64_t s = 0; s < count; ++s)
      for (int64_t i = 0, begin = 0; i < c.length; ++i) {
        if (i % 4 == (first + s) % 5) begin = i;
        batch.first_keys.data_ptr<int32_t>()[s * c.length + i] = static_cast<int32_t>(begin);
        batch.positions.data_ptr<int32_t>()[s * c.length + i] = static_cast<int32_t>(i - begin);
      }
  }
  return take_pieces(batch, c.context);
}

std::vector<Batch> rank_batches(const EngineCase& c, int64_t step, int rank, int ranks) {
  std::vector<Batch> batches;
  const int64_t begin = step * c.samples * c.micro_batches * ranks;
  for (int64_t m = 0; m < c.micro_batches; ++m)
    batches.push_back(make_batch(c, begin + (m * ranks + rank) * c.samples, c.samples));
  return batches;
}

std::vector<StepResult> run_steps(Engine& engine, const EngineCase& c, int rank, int ranks, int64_t first,
                                  int64_t last) {
  std::vector<StepResult> results;
  for (int64_t step = first; step < last; ++step)
    results.push_back(engine.step(rank_batches(c, step, rank, ranks),
                                  {.step = step,
                                   .update = step,
                                   .learning_rate = 3e-3F,
                                   .clip = c.clip,
                                   .loss_scale = c.loss_scale,
                                   .previous_norm = results.empty() ? 0 : results.back().grad_norm}));
  return results;
}

}  // namespace partita::internal::test
