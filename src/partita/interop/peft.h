// Low-rank adapters in PEFT's format: adapter_model.safetensors (or .bin) and adapter_config.json.
//
//   const PeftConfig config = parse_peft_config(read_file(path / "adapter_config.json"), path, model.kind);
//   const HfWeights adapters(HfFolder(path, kPeftFiles), peft_naming(model, config.lora));
//
// To write them, use export_peft_adapter (hf_export.h); to merge them, MergedWeights (adapted_weights.h).
#pragma once
#include "partita/interop/hf_weights.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

// How to interpret the tensors of such a folder. Errors: those of peft_parameters.
[[nodiscard]] HfNaming peft_naming(const ModelConfig&, const LoraConfig&);

}  // namespace partita::internal
