// Block options derived from a model configuration, common to all kinds of models.
#pragma once
#include "partita/models/config.h"
#include "partita/nn/embedding.h"
#include "partita/nn/head.h"
#include "partita/nn/layer.h"

namespace partita::internal {

[[nodiscard]] EmbeddingOptions embedding_options(const ModelConfig&, DType compute);
[[nodiscard]] LayerOptions layer_options(const ModelConfig&, int64_t index, DType compute, bool fp8 = false);
// Uses the norm of the model kind; for GPT-2 it also adds the last layer's bias.
[[nodiscard]] HeadOptions head_options(const ModelConfig&, DType compute, at::Device);

}  // namespace partita::internal
