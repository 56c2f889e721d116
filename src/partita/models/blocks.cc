#include "partita/models/blocks.h"

#include "partita/nn/gpt2_layer.h"

namespace partita::internal {

EmbeddingOptions embedding_options(const ModelConfig& config, const BlockBuild& build) {
  return {.vocabulary = config.vocab_size,
          .positions = config.kind == ModelKind::gpt2 ? config.max_length : 0,
          .width = config.hidden_size,
          .init_std = config.init_std,
          .dtype = build.compute,
          .tensor = build.tensor,
          .divided = build.division.embedding};
}

LayerOptions layer_options(const ModelConfig& config, int64_t index, const BlockBuild& build) {
  return {.index = index,
          .layers = config.layers,
          .width = config.hidden_size,
          .ffn_width = config.ffn_size(),
          .norm_epsilon = config.norm_epsilon,
          .init_std = config.init_std,
          .entry_dropout = static_cast<float>(index == 0 ? config.embedding_dropout : config.dropout),
          .residual_dropout = static_cast<float>(config.dropout),
          .attention_dropout = static_cast<float>(config.attention_dropout),
          .dtype = build.compute,
          .fp8 = build.fp8,
          .leaves_operands = build.leaves_operands,
          .tensor = build.tensor,
          .divides_attention = build.division.layer(index).attention,
          .divides_mlp = build.division.layer(index).mlp,
          .context = build.context};
}

HeadOptions head_options(const ModelConfig& config, const BlockBuild& build) {
  const bool gpt2 = config.kind == ModelKind::gpt2;
  return {.vocabulary = config.vocab_size,
          .width = config.hidden_size,
          .weight_name = config.has_tied_head() ? "embedding.token.weight" : "head.weight",
          .entry_bias_name = gpt2 ? down_bias_name(config.layers - 1) : "",
          .entry_site = dropout_site(config.layers, DropoutSite::entry),
          .norm = gpt2 ? NormKind::layer : NormKind::rms,
          .norm_epsilon = config.norm_epsilon,
          .init_std = config.init_std,
          .entry_dropout = static_cast<float>(config.dropout),
          .dtype = build.compute,
          .chunk_bytes = head_chunk_bytes(build.device),
          .tensor = build.tensor,
          .divided = build.division.head};
}

}  // namespace partita::internal
