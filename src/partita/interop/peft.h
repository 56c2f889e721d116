// Low-rank adapters as PEFT keeps them: adapter_model.safetensors (or .bin) beside adapter_config.json.
//
//   const PeftConfig config = parse_peft_config(read_file(path / "adapter_config.json"), path, model.kind);
//   const HfWeights adapters(HfFolder(path, kPeftFiles), peft_naming(model, config.lora));
//
// Writing is export_peft_adapter (hf_export.h), merging MergedWeights (adapted_weights.h).
#pragma once
#include "partita/interop/hf_weights.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

// What the tensors of such a folder are. Errors: those of peft_parameters.
[[nodiscard]] HfNaming peft_naming(const ModelConfig&, const LoraConfig&);

}  // namespace partita::internal
