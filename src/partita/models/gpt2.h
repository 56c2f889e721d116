// GPT-2 and GPT-3 as a list of blocks: embedding, layers, head with tied table.
//
//   std::vector<std::unique_ptr<Block>> blocks = make_gpt2(config, DType::bf16);
#pragma once
#include <memory>
#include <vector>

#include "partita/models/config.h"
#include "partita/nn/block.h"

namespace partita {

// Errors: those of validate(config); a vocab_size that is still 0.
[[nodiscard]] std::vector<std::unique_ptr<Block>> make_gpt2(const ModelConfig&, DType compute);

}  // namespace partita
