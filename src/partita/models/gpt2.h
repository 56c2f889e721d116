// GPT-2 and GPT-3 as a list of blocks: embedding, layers, head.
#pragma once
#include <memory>
#include <vector>

#include "partita/models/blocks.h"
#include "partita/models/config.h"
#include "partita/nn/block.h"

namespace partita::internal {

// Called by make_blocks (model.h), which has checked the configuration.
[[nodiscard]] std::vector<std::unique_ptr<Block>> make_gpt2(const ModelConfig&, const BlockBuild&);

}  // namespace partita::internal
