// What each field of a config.json means here: of GPT2Config and LlamaConfig of transformers 4 and 5, of their base
// class, and of models that are like Llama and are not Llama.
//
//   const JsonFields fields(root, "", path, hf_fields(ModelKind::llama));
#pragma once
#include <span>

#include "partita/interop/field_list.h"
#include "partita/models/config.h"

namespace partita::internal {

[[nodiscard]] std::span<const KnownField> hf_fields(ModelKind);

// Of the object rope_scaling (transformers 4) or rope_parameters (5).
[[nodiscard]] std::span<const KnownField> hf_rope_fields();

}  // namespace partita::internal
