// How each field of a config.json is handled: GPT2Config and LlamaConfig of transformers 4 and 5, their base class, and
// Llama-like models that are not Llama.
//
//   const JsonFields fields(root, "", path, hf_fields(ModelKind::llama));
#pragma once
#include <span>

#include "partita/interop/field_list.h"
#include "partita/models/config.h"

namespace partita::internal {

[[nodiscard]] std::span<const KnownField> hf_fields(ModelKind);

// The fields of the object rope_scaling (transformers 4) or rope_parameters (5).
[[nodiscard]] std::span<const KnownField> hf_rope_fields();

}  // namespace partita::internal
