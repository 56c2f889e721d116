// Block options derived from a model configuration, common to all kinds of models.
#pragma once
#include "partita/models/config.h"
#include "partita/models/tensor_division.h"
#include "partita/nn/embedding.h"
#include "partita/nn/head.h"
#include "partita/nn/layer.h"
#include "partita/nn/linear.h"

namespace partita::internal {

// How the blocks of a model are built (make_blocks).
struct BlockBuild {
  DType compute = DType::fp32;
  LoraOptions lora;
  at::Device device = at::kCPU;
  bool fp8 = false;
  TensorSplit tensor;
  ContextSplit context;
  bool leaves_operands = false;  // BlockTraits
  TensorDivision division;
};

[[nodiscard]] EmbeddingOptions embedding_options(const ModelConfig&, const BlockBuild&);
[[nodiscard]] LayerOptions layer_options(const ModelConfig&, int64_t index, const BlockBuild&);
// Uses the norm of the model kind; for GPT-2 it also adds the last layer's bias.
[[nodiscard]] HeadOptions head_options(const ModelConfig&, const BlockBuild&);

}  // namespace partita::internal
