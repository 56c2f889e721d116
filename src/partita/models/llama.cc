#include "partita/models/llama.h"

#include "partita/models/blocks.h"
#include "partita/nn/llama_layer.h"

namespace partita::internal {

std::vector<std::unique_ptr<Block>> make_llama(const ModelConfig& config, const BlockBuild& build) {
  const auto rope = std::make_shared<const RopeTable>(make_rope_table({.head_width = config.head_size(),
                                                                       .positions = config.max_length,
                                                                       .theta = config.rope_theta,
                                                                       .factor = config.rope_factor,
                                                                       .low = config.rope_low_frequency,
                                                                       .high = config.rope_high_frequency,
                                                                       .original_length = config.rope_original_length},
                                                                      build.device));
  const Heads heads{.heads = config.heads, .kv_heads = config.key_value_heads(), .head_width = config.head_size()};
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Embedding>(embedding_options(config, build)));
  for (int64_t l = 0; l < config.layers; ++l)
    blocks.push_back(std::make_unique<LlamaLayer>(
        LlamaLayerOptions{.layer = layer_options(config, l, build), .heads = heads, .rope = rope, .lora = build.lora}));
  blocks.push_back(std::make_unique<Head>(head_options(config, build)));
  return blocks;
}

}  // namespace partita::internal
