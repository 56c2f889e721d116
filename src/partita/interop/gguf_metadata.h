// What a GGUF file says of a model besides its tensors and tokenizer: the keys that llama.cpp's loader asks for. Pure.
//
//   const GgufMetadata metadata = gguf_model_metadata(model, GgufType::bf16);   // {"llama.block_count", 32}, ...
#pragma once
#include "partita/interop/gguf_format.h"
#include "partita/models/config.h"

namespace partita::internal {

// `usual`: the type of most matrices. Error: a size beyond 32 bits.
[[nodiscard]] GgufMetadata gguf_model_metadata(const ModelConfig& model, GgufType usual);

}  // namespace partita::internal
