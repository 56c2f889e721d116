#include "partita/models/llama.h"

#include "partita/nn/embedding.h"
#include "partita/nn/head.h"
#include "partita/nn/llama_layer.h"

namespace partita {

std::vector<std::unique_ptr<Block>> make_llama(const ModelConfig& config, DType compute, const LoraOptions& lora,
                                               at::Device device) {
  const auto rope = std::make_shared<const RopeTable>(make_rope_table({.head_width = config.head_size(),
                                                                       .positions = config.max_length,
                                                                       .theta = config.rope_theta,
                                                                       .factor = config.rope_factor,
                                                                       .low = config.rope_low_frequency,
                                                                       .high = config.rope_high_frequency,
                                                                       .original_length = config.rope_original_length},
                                                                      device));
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Embedding>(EmbeddingOptions{.vocabulary = config.vocab_size,
                                                                .positions = 0,
                                                                .width = config.hidden_size,
                                                                .init_std = config.init_std,
                                                                .dtype = compute}));
  const auto residual = static_cast<float>(config.dropout);
  for (int64_t l = 0; l < config.layers; ++l)
    blocks.push_back(std::make_unique<LlamaLayer>(LlamaLayerOptions{
        .index = l,
        .layers = config.layers,
        .width = config.hidden_size,
        .heads = {.heads = config.heads, .kv_heads = config.key_value_heads(), .head_width = config.head_size()},
        .ffn_width = config.ffn_size(),
        .rope = rope,
        .norm_epsilon = config.norm_epsilon,
        .init_std = config.init_std,
        .entry_dropout = l == 0 ? static_cast<float>(config.embedding_dropout) : residual,
        .residual_dropout = residual,
        .attention_dropout = static_cast<float>(config.attention_dropout),
        .dtype = compute,
        .lora = lora}));
  blocks.push_back(std::make_unique<Head>(
      HeadOptions{.vocabulary = config.vocab_size,
                  .width = config.hidden_size,
                  .weight_name = config.has_tied_head() ? "embedding.token.weight" : "head.weight",
                  .entry_site = dropout_site(config.layers, DropoutPlace::entry),
                  .norm = NormKind::rms,
                  .norm_epsilon = config.norm_epsilon,
                  .init_std = config.init_std,
                  .entry_dropout = residual,
                  .dtype = compute,
                  .chunk_bytes = head_chunk_bytes(device)}));
  return blocks;
}

}  // namespace partita
