// From a configuration to the blocks of a model, with adapters or without.
//
//   std::vector<std::unique_ptr<Block>> blocks = make_blocks(config, DType::bf16);
#pragma once
#include <memory>
#include <vector>

#include "partita/models/config.h"
#include "partita/models/lora.h"
#include "partita/nn/block.h"

namespace partita {

// fp8: the layers' linears multiply in 8 bits (ops/fp8.h); compute is bf16. On `device` lie what blocks own, which are
// constants. Errors: those of validate(config) and validate(lora); a vocab_size that is still 0.
[[nodiscard]] std::vector<std::unique_ptr<Block>> make_blocks(const ModelConfig&, DType compute, const LoraConfig& = {},
                                                              at::Device = at::kCPU, bool fp8 = false);

}  // namespace partita
