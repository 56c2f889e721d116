// What a rank of each layout holds, against formulas that know nothing of units, slots and lists of actions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/engine/engine_memory.h"
#include "partita/shard/sharding.h"
#include "partita/train/build_model.h"
#include "partita/train/stages.h"

namespace partita::internal {
namespace {

struct Layout {
  int64_t tensor, pipeline, data;
  int stage;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  // What every tensor-parallel rank has whole.
  bool attention = false, mlp = false, tables = false;
};

constexpr int64_t kWidth = 256, kFfn = 640, kHeads = 8, kVocabulary = 1024, kLength = 64, kMicroBatches = 6;
constexpr double kHalf = 2, kFull = 4;  // bytes of bf16, fp32

Config config_of(const Layout& l) {
  Config c;
  c.model = {.kind = ModelKind::llama,
             .layers = 12,
             .hidden_size = kWidth,
             .heads = kHeads,
             .ffn_hidden_size = kFfn,
             .vocab_size = kVocabulary,
             .max_length = kLength,
             .dropout = 0,
             .embedding_dropout = 0,
             .attention_dropout = 0};
  c.precision.compute = DType::bf16;
  c.train.sequence_length = kLength;
  c.train.micro_batch = 2;
  c.train.global_batch = 2 * kMicroBatches * l.data;
  c.parallel.tensor = l.tensor;
  c.parallel.pipeline = l.pipeline;
  c.parallel.zero_stage = l.stage;
  c.parallel.schedule = l.schedule;
  c.parallel.layers_per_collective = 1;
  if (l.attention) c.parallel.plan.emplace_back("layers.*.attention", "replicate");
  if (l.mlp) c.parallel.plan.emplace_back("layers.*.mlp", "replicate");
  if (l.tables)
    for (const char* name : {"embedding", "head"}) c.parallel.plan.emplace_back(name, "replicate");
  return c;
}

struct Formula {
  double weights, gradients, master, optimizer, activations;
  double unit, tables;  // parameters of the largest unit; of embedding and head
};

// Of a rank that holds `layers` layers of `first` to `last` stage.
Formula formula(const Layout& l, int64_t layers, bool first, bool last, int64_t held, int64_t open) {
  const double t = static_cast<double>(l.tensor), h = kWidth, f = kFfn, rows = 2 * kLength;
  // Ranks that divide attention, the MLP and tables.
  const double ta = l.attention ? 1 : t, tm = l.mlp ? 1 : t, tt = l.tables ? 1 : t;
  const double layer = 4 * h * h / ta + 3 * h * f / tm + 2 * h, table = kVocabulary * h / tt;
  const double all = layer * static_cast<double>(layers) + (first ? table : 0) + (last ? table + h : 0);
  const double part = all / static_cast<double>(l.stage >= 1 ? l.data : 1);
  // Saved by a layer: four tensors of the stream; queries, keys, values and what attention makes of them; three of the
  // MLP; two scales of norms per row, and one sum per row and head.
  const double saved = rows * (kHalf * (4 * h / t + 4 * h / ta + 3 * f / tm) + kFull * (2 / t + kHeads / ta));
  const double head = rows / t * (kHalf * 2 * h + kFull);
  // Operands that are not saved anyway: output gradients of down, output and qkv; with sequence parallelism the
  // gathered inputs of gate_up and qkv.
  const double operands = rows * kHalf * (2 * h + 3 * h / t + (l.tensor > 1 ? 2 * h : 0));
  // ZeRO-3 gathers weights from the master weights, of which it rounds them: two layers at a time, and the tables.
  return {.weights = kHalf * (l.stage == 3 ? 2 * layer : all),
          .gradients = kFull * (l.stage >= 2 ? part : all),
          .master = kFull * part,
          .optimizer = 2 * kFull * part,
          .activations = static_cast<double>(held * layers) * saved + (last ? static_cast<double>(held) * head : 0) +
                         static_cast<double>(open * layers) * operands,
          .unit = std::max(layer, table + h),
          .tables = 2 * (table + h)};
}

TEST(LayoutMemory, IsWhatTheFormulasSay) {
  using enum PipelineSchedule;
  for (const Layout& l :
       {Layout{1, 1, 1, 0},
        {1, 1, 4, 0},
        {1, 1, 4, 1},
        {1, 1, 4, 2},
        {1, 1, 4, 3},
        {2, 1, 1, 0},
        {4, 1, 2, 1},
        {2, 1, 2, 3},
        {1, 2, 1, 0},
        {1, 4, 1, 0},
        {1, 4, 2, 1},
        {2, 2, 2, 2},
        {2, 4, 2, 3},
        {.tensor = 2, .pipeline = 1, .data = 1, .stage = 0, .attention = true},
        {.tensor = 4, .pipeline = 1, .data = 2, .stage = 1, .mlp = true},
        {.tensor = 2, .pipeline = 2, .data = 2, .stage = 3, .tables = true},
        {.tensor = 4, .pipeline = 1, .data = 2, .stage = 2, .attention = true, .mlp = true, .tables = true},
        {1, 4, 1, 0, gpipe},
        {2, 2, 1, 0, zb_h1},
        {1, 2, 1, 0, zb_h1},
        {1, 4, 1, 0, zb_h1}})
    for (int64_t rank = 0; rank < l.pipeline; ++rank) {
      const Config c = config_of(l);
      const int64_t ranks = l.tensor * l.pipeline * l.data;
      const MeshLayout::Position at{.pipeline = static_cast<int>(rank)};
      const EngineMemory found =
          predict_memory(training_blocks(c, at::kCPU, at), zero_sharding(l.stage, static_cast<int>(l.data)),
                         training_options(c, ranks, at::kCPU, at));
      // Blocks: embedding, layers, head.
      const std::vector<int> cut = l.pipeline == 1 ? std::vector<int>{0, 14} : stage_blocks(c);
      const bool first = rank == 0, last = rank == l.pipeline - 1;
      const int64_t layers = cut[static_cast<size_t>(rank) + 1] - cut[static_cast<size_t>(rank)] - first - last;
      const int64_t held = l.pipeline == 1       ? 1
                           : l.schedule == gpipe ? kMicroBatches
                                                 : l.pipeline - rank + (l.schedule == zb_h1 ? rank : 0);
      const int64_t open = l.schedule == zb_h1 ? rank + 1 : 0;
      const Formula expected = formula(l, layers, first, last, std::min(held, kMicroBatches), open);
      const std::string what = fmt::format("tensor {} pipeline {} data {} ZeRO {} {}, stage {}", l.tensor, l.pipeline,
                                           l.data, l.stage, name_of(l.schedule), rank);
      // Layers that are gathered or reduced in turn share two buffers, each for a unit, embedding and head have others.
      const double two_units = 4 * expected.unit;
      const auto near = [&](const char* name, int64_t bytes, double formula, double buffers = 0) {
        EXPECT_GE(static_cast<double>(bytes), 0.995 * formula) << name << ", " << what;
        EXPECT_LE(static_cast<double>(bytes), 1.005 * formula + buffers + 4096) << name << ", " << what;
      };
      near("weights", found.weights, expected.weights, l.stage == 3 ? kHalf * expected.tables : 0);
      near("gradients", found.gradients, expected.gradients,
           l.stage >= 2   ? (kHalf + kFull) * two_units
           : l.stage == 1 ? expected.gradients / static_cast<double>(l.data)
                          : 0);
      near("master weights", found.master, expected.master);
      near("moments", found.optimizer, expected.optimizer);
      near("activations", found.activations, expected.activations);
    }
}

}  // namespace
}  // namespace partita::internal
