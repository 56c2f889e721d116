// What the blocks of all kinds of models take from a configuration.
#pragma once
#include "partita/models/config.h"
#include "partita/nn/embedding.h"
#include "partita/nn/head.h"
#include "partita/nn/layer.h"

namespace partita::internal {

[[nodiscard]] EmbeddingOptions embedding_options(const ModelConfig&, DType compute);
[[nodiscard]] LayerOptions layer_options(const ModelConfig&, int64_t index, DType compute, bool fp8 = false);
// With the norm of the kind; GPT-2's adds the last layer's bias.
[[nodiscard]] HeadOptions head_options(const ModelConfig&, DType compute, at::Device);

}  // namespace partita::internal
