#include "partita/train/stages.h"

#include <algorithm>

#include "partita/models/flops.h"
#include "partita/models/model.h"
#include "partita/pipeline/balance.h"

namespace partita::internal {
namespace {

PipelineShape shape_of(const Config& c, int64_t micro_batches) {
  return {.schedule = c.parallel.schedule,
          .ranks = static_cast<int>(c.parallel.pipeline),
          .chunks = static_cast<int>(pipeline_chunks(c)),
          .micro_batches = static_cast<int>(micro_batches)};
}

}  // namespace

std::vector<double> block_times(const Config& c) {
  const ModelConfig& m = c.model;
  ModelConfig without_head = m;
  without_head.vocab_size = 1;
  const double layer =
      training_flops(without_head, c.train.sequence_length, AttentionCount::causal) / static_cast<double>(m.layers);
  const int64_t matrices = m.kind == ModelKind::llama ? 3 : 2;
  const double mlp = 6.0 * static_cast<double>(matrices * m.hidden_size * m.ffn_size());
  const double core = training_flops(without_head, c.train.sequence_length, AttentionCount::causal) -
                      6.0 * static_cast<double>(counted_parameters(without_head));
  const double attention = core / static_cast<double>(m.layers), linears = layer - mlp - attention;
  // Relative time of a replicated pair of linears: in each, one of forward and input gradient has all rows (T times
  // longer), the other this rank's rows of the stream, and the weight gradient an equal part of the rows.
  const auto ranks = static_cast<double>(c.parallel.tensor);
  const double stream = tensor_split(c, 0).splits_rows(tokens_of_micro_batch(c)) ? 1 : ranks;
  const double replicated_linear = (ranks + stream + 1) / 3;
  // Forward and input gradient of a replicated head both have this rank's rows of the stream.
  const double replicated_head = (2 * stream + 1) / 3;
  const TensorDivision division = tensor_division(c);
  std::vector<double> times = {0};
  for (int64_t l = 0; l < m.layers; ++l) {
    const LayerDivision d = division.layer(l);
    times.push_back(((d.attention ? linears + attention : replicated_linear * linears + ranks * attention) +
                     (d.mlp ? mlp : replicated_linear * mlp)) /
                    layer);
  }
  times.push_back((division.head ? 1 : replicated_head) * 6.0 * static_cast<double>(m.hidden_size) *
                  static_cast<double>(m.vocab_size) / layer);
  return times;
}

std::vector<int> stage_blocks(const Config& c) {
  const std::vector<double> times = block_times(c);
  const int64_t stages = c.parallel.pipeline * pipeline_chunks(c);
  const std::vector<int64_t> given = stage_layers(c);
  if (given.empty()) return balance_stages(times, static_cast<int>(stages)).first;
  std::vector<int> first = {0};
  for (const int64_t layers : given) first.push_back(first.back() + static_cast<int>(layers));
  for (size_t s = 1; s < first.size(); ++s) ++first[s];  // the embedding
  ++first.back();                                        // the head
  return first;
}

int64_t own_layers_below(const Config& c, int rank, int64_t count) {
  if (c.parallel.pipeline == 1) return count;
  const StagePlacement placement(shape_of(c, 1));
  const std::vector<int> first = stage_blocks(c);
  int64_t own = 0;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const auto s = static_cast<size_t>(placement.stage(rank, chunk));
    for (int64_t b = first[s]; b < first[s + 1]; ++b) own += b >= 1 && b <= std::min(count, c.model.layers) ? 1 : 0;
  }
  return own;
}

PipelineStage training_stage(const Config& c, int64_t ranks, int rank,
                             const std::function<bool(const ParameterSpec&)>& frozen) {
  PipelineStage stage{.shape = shape_of(c, accumulation_steps(c, ranks)), .rank = rank};
  if (!stage.pipelined()) return stage;
  const StagePlacement placement = stage.placement();
  const std::vector<int> first = stage_blocks(c);
  const auto model = make_blocks(c.model, c.precision.compute, c.lora);
  std::vector<bool> trains;  // [block]
  for (const auto& block : model)
    trains.push_back(std::ranges::any_of(block->parameters(), [&](const ParameterSpec& p) { return !frozen(p); }));
  stage.chunks = {0};
  for (int chunk = 0; chunk < stage.shape.chunks; ++chunk) {
    const auto s = static_cast<size_t>(placement.stage(rank, chunk));
    stage.chunks.push_back(stage.chunks.back() + first[s + 1] - first[s]);
    stage.trains_below.push_back(std::find(trains.begin(), trains.begin() + first[s], true) !=
                                 trains.begin() + first[s]);
  }
  stage.open_weights = static_cast<int>(c.parallel.open_weights);
  stage.two_gradients = c.model.dropout > 0 || c.model.embedding_dropout > 0;
  if (c.model.has_tied_head() && placement.embedding_rank() != placement.head_rank())
    stage.tied = "embedding.token.weight";
  return stage;
}

std::vector<std::unique_ptr<Block>> take_stage(std::vector<std::unique_ptr<Block>> model, const Config& c, int rank) {
  if (c.parallel.pipeline == 1) return model;
  const StagePlacement placement(shape_of(c, 1));
  const std::vector<int> first = stage_blocks(c);
  std::vector<std::unique_ptr<Block>> own;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const auto s = static_cast<size_t>(placement.stage(rank, chunk));
    for (int b = first[s]; b < first[s + 1]; ++b) own.push_back(std::move(model[static_cast<size_t>(b)]));
  }
  return own;
}

}  // namespace partita::internal
