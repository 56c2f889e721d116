// Builds the blocks of a model from its configuration, with or without adapters.
//
//   std::vector<std::unique_ptr<Block>> blocks = make_blocks(model, DType::bf16);
#pragma once
#include <memory>
#include <vector>

#include "partita/base/context_split.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"
#include "partita/models/tensor_division.h"
#include "partita/nn/block.h"
#include "partita/nn/split.h"

namespace partita {

// fp8: the layers' linears use fp8 matmuls (ops/fp8.h); requires compute bf16. `device` holds constants owned by the
// blocks. tensor, context: the blocks of one rank of these groups. leaves_operands: see BlockTraits. division: what the
// tensor-parallel ranks divide. Errors: those of validate(config) and validate(lora); a vocab_size that is still 0;
// more tensor-parallel ranks than heads, where attention is divided.
[[nodiscard]] std::vector<std::unique_ptr<Block>> make_blocks(const ModelConfig&, DType compute, const LoraConfig& = {},
                                                              at::Device = at::kCPU, bool fp8 = false,
                                                              const TensorSplit& = {}, const ContextSplit& = {},
                                                              bool leaves_operands = false, const TensorDivision& = {});

}  // namespace partita
