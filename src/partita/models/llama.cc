#include "partita/models/llama.h"

#include "partita/models/blocks.h"
#include "partita/nn/llama_layer.h"

namespace partita::internal {

std::vector<std::unique_ptr<Block>> make_llama(const ModelConfig& config, DType compute, const LoraOptions& lora,
                                               at::Device device, bool fp8) {
  const auto rope = std::make_shared<const RopeTable>(make_rope_table({.head_width = config.head_size(),
                                                                       .positions = config.max_length,
                                                                       .theta = config.rope_theta,
                                                                       .factor = config.rope_factor,
                                                                       .low = config.rope_low_frequency,
                                                                       .high = config.rope_high_frequency,
                                                                       .original_length = config.rope_original_length},
                                                                      device));
  const Heads heads{.heads = config.heads, .kv_heads = config.key_value_heads(), .head_width = config.head_size()};
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Embedding>(embedding_options(config, compute)));
  for (int64_t l = 0; l < config.layers; ++l)
    blocks.push_back(std::make_unique<LlamaLayer>(LlamaLayerOptions{
        .layer = layer_options(config, l, compute, fp8), .heads = heads, .rope = rope, .lora = lora}));
  blocks.push_back(std::make_unique<Head>(head_options(config, compute, device)));
  return blocks;
}

}  // namespace partita::internal
