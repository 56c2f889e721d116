// Published models, by their sizes.
//
//   const ModelConfig model = gpt2_small();    // 124439808 parameters
#pragma once
#include "partita/models/config.h"

namespace partita {

// GPT-2 (A. Radford et al., 2019): 124M, 355M, 774M and 1.56B parameters, 50257 tokens, 1024 positions, no dropout.
[[nodiscard]] ModelConfig gpt2_small();
[[nodiscard]] ModelConfig gpt2_medium();
[[nodiscard]] ModelConfig gpt2_large();
[[nodiscard]] ModelConfig gpt2_xl();

// TinyLlama 1.1B (P. Zhang et al., 2024): 32000 tokens, 2048 positions, 4 key/value heads.
[[nodiscard]] ModelConfig tiny_llama();
// Llama 2 7B (H. Touvron et al., 2023): 32000 tokens, 4096 positions.
[[nodiscard]] ModelConfig llama2_7b();
// Llama 3 8B (A. Grattafiori et al., 2024): 128256 tokens, 8192 positions, 8 key/value heads.
[[nodiscard]] ModelConfig llama3_8b();

}  // namespace partita
