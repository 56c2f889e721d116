// How a run's model is divided into pipeline stages. Pure.
//
//   const std::vector<int> first = stage_blocks(config);              // first block of each stage, then their number
//   const PipelineStage stage = training_stage(config, ranks, rank, frozen);
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "partita/config/config.h"
#include "partita/engine/pipeline_stage.h"
#include "partita/nn/block.h"

namespace partita::internal {

// Modeled time of each block, in layers: the head takes as much as the layers with its FLOPs, the embedding nothing.
[[nodiscard]] std::vector<double> block_times(const Config&);

// Stages of about equal modeled time, or those of parallel.stages. Requires a valid config.
[[nodiscard]] std::vector<int> stage_blocks(const Config&);

// How many of the first `count` layers of the model the rank has.
[[nodiscard]] int64_t own_layers_below(const Config&, int rank, int64_t count);

// Of a rank of the pipeline in a job of `ranks`. frozen: which parameters are not trained.
[[nodiscard]] PipelineStage training_stage(const Config&, int64_t ranks, int rank,
                                           const std::function<bool(const ParameterSpec&)>& frozen);

// The blocks of the rank's chunks, of those of the whole model.
[[nodiscard]] std::vector<std::unique_ptr<Block>> take_stage(std::vector<std::unique_ptr<Block>> model, const Config&,
                                                             int rank);

}  // namespace partita::internal
