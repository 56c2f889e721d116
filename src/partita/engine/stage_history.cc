#include "partita/engine/stage_history.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/device/stream.h"
#include "partita/engine/amax_history.h"

namespace partita::internal {
namespace {

// Where the history of each of this rank's chunks is in that of the model, in values; `all` values are the model's.
struct Places {
  struct Chunk {
    int64_t first, count;
  };
  std::vector<Chunk> chunks;
  int64_t all = 0;
};

Places places_of(std::span<const std::unique_ptr<Block>> blocks, const PipelineStage& stage, Communicator& pipeline) {
  const StagePlacement placement = stage.placement();
  at::Tensor counts = at::zeros({placement.stages()}, at::kLong);
  auto* const count = counts.mutable_data_ptr<int64_t>();
  for (int chunk = 0; chunk < stage.shape.chunks; ++chunk)
    for (int b = stage.chunks[static_cast<size_t>(chunk)]; b < stage.chunks[static_cast<size_t>(chunk) + 1]; ++b)
      count[placement.stage(stage.rank, chunk)] +=
          blocks[static_cast<size_t>(b)]->traits().fp8_scales * AmaxHistory::kSteps;
  CpuStream stream;
  pipeline.all_reduce(counts, Reduce::sum, stream).wait();
  Places places{.chunks = std::vector<Places::Chunk>(static_cast<size_t>(stage.shape.chunks))};
  for (int s = 0; s < placement.stages(); ++s) {
    if (placement.rank(s) == stage.rank)
      places.chunks[static_cast<size_t>(placement.chunk(s))] = {.first = places.all, .count = count[s]};
    places.all += count[s];
  }
  return places;
}

}  // namespace

std::vector<float> model_history(std::span<const float> own, std::span<const std::unique_ptr<Block>> blocks,
                                 const PipelineStage& stage, Communicator& pipeline) {
  const Places places = places_of(blocks, stage, pipeline);
  // Each value is one rank's, so that sums are exact. The last number: how many ranks have a history.
  at::Tensor model = at::zeros({places.all + 1}, at::kFloat);
  float* const values = model.mutable_data_ptr<float>();
  if (!own.empty()) {
    values[places.all] = 1;
    for (const float* from = own.data(); const auto& [first, count] : places.chunks) {
      std::copy_n(from, count, values + first);
      from += count;
    }
  }
  CpuStream stream;
  pipeline.all_reduce(model, Reduce::sum, stream).wait();
  if (values[places.all] == 0) return {};
  return {values, values + places.all};
}

std::vector<float> stage_history(std::span<const float> model, std::span<const std::unique_ptr<Block>> blocks,
                                 const PipelineStage& stage, Communicator& pipeline) {
  const Places places = places_of(blocks, stage, pipeline);
  if (model.empty()) return {};
  if (std::ssize(model) != places.all)
    fail("{} fp8 amax values, expected {}: they are from a different model", model.size(), places.all);
  std::vector<float> own;
  for (const auto& [first, count] : places.chunks) {
    const auto part = model.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    own.insert(own.end(), part.begin(), part.end());
  }
  return own;
}

}  // namespace partita::internal
