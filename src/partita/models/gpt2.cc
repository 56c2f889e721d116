#include "partita/models/gpt2.h"

#include "partita/nn/embedding.h"
#include "partita/nn/gpt2_layer.h"
#include "partita/nn/head.h"

namespace partita {

std::vector<std::unique_ptr<Block>> make_gpt2(const ModelConfig& config, DType compute, const LoraOptions& lora,
                                              at::Device device) {
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Embedding>(EmbeddingOptions{.vocabulary = config.vocab_size,
                                                                .positions = config.max_length,
                                                                .width = config.hidden_size,
                                                                .init_std = config.init_std,
                                                                .dtype = compute}));
  const auto residual = static_cast<float>(config.dropout);
  for (int64_t l = 0; l < config.layers; ++l)
    blocks.push_back(std::make_unique<Gpt2Layer>(
        Gpt2LayerOptions{.index = l,
                         .layers = config.layers,
                         .width = config.hidden_size,
                         .heads = config.heads,
                         .ffn_width = config.ffn_size(),
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
                  .entry_bias_name = down_bias_name(config.layers - 1),
                  .entry_site = dropout_site(config.layers, DropoutPlace::entry),
                  .norm_epsilon = config.norm_epsilon,
                  .init_std = config.init_std,
                  .entry_dropout = residual,
                  .dtype = compute,
                  .chunk_bytes = head_chunk_bytes(device)}));
  return blocks;
}

}  // namespace partita
