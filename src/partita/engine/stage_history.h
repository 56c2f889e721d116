// The amax history (amax_history.h) of a model whose layers are on the ranks of a pipeline: in the order of its blocks,
// as in one process, so that a checkpoint does not depend on the stages.
//
//   const std::vector<float> all = model_history(history.values(), blocks, stage, pipeline);
//   history.set(stage_history(all, blocks, stage, pipeline));
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/engine/pipeline_stage.h"
#include "partita/nn/block.h"

namespace partita::internal {

// AmaxHistory::values of all blocks of the model, from those of this rank's `blocks`; empty if every rank's are.
// Collective over `pipeline`.
[[nodiscard]] std::vector<float> model_history(std::span<const float> own,
                                               std::span<const std::unique_ptr<Block>> blocks, const PipelineStage&,
                                               Communicator& pipeline);

// The part of model_history that AmaxHistory::set takes on this rank; empty for an empty one. Collective. Error: a size
// other than 0 or that of the model.
[[nodiscard]] std::vector<float> stage_history(std::span<const float> model,
                                               std::span<const std::unique_ptr<Block>> blocks, const PipelineStage&,
                                               Communicator& pipeline);

}  // namespace partita::internal
