#include "partita/models/gpt2.h"

#include "partita/models/blocks.h"
#include "partita/nn/gpt2_layer.h"

namespace partita::internal {

std::vector<std::unique_ptr<Block>> make_gpt2(const ModelConfig& config, const BlockBuild& build) {
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Embedding>(embedding_options(config, build)));
  for (int64_t l = 0; l < config.layers; ++l)
    blocks.push_back(std::make_unique<Gpt2Layer>(
        Gpt2LayerOptions{.layer = layer_options(config, l, build), .heads = config.heads, .lora = build.lora}));
  blocks.push_back(std::make_unique<Head>(head_options(config, build)));
  return blocks;
}

}  // namespace partita::internal
