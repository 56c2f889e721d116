// Converts between adapter_config.json, PEFT's description of a folder of low-rank adapters, and LoraConfig.
//
//   const PeftConfig peft = parse_peft_config(read_file(path), path, ModelKind::llama);
//   write_file(path, peft_config_text(peft.lora, ModelKind::llama, peft.base));
//
// Supported are plain adapters of linears (peft_type LORA). Every field of PEFT's LoraConfig is listed: DoRA,
// rank-stabilized scaling, trained biases, per-pattern ranks, initializations that change the base (PiSSA, OLoRA, ...)
// and the like are errors by name. Unknown fields are errors too, because new ones are mostly new kinds of adapters.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/field_list.h"
#include "partita/models/lora.h"

namespace partita::internal {

struct PeftConfig {
  LoraConfig lora;
  std::string base;  // base_model_name_or_path: a folder, or a name on the Hugging Face Hub; empty: unspecified
  std::vector<std::string> warnings;
};

// The fields of LoraConfig in PEFT 0.4 to 0.21.
[[nodiscard]] std::span<const KnownField> peft_fields();

// `kind`: kind of the base model. Errors: as parse_hf_config, and those of validate(lora).
[[nodiscard]] PeftConfig parse_peft_config(std::string_view text, const std::filesystem::path& path, ModelKind kind);

// Reads only base_model_name_or_path, before the kind of model is known; empty: unspecified.
[[nodiscard]] std::string peft_base(std::string_view text, const std::filesystem::path& path);

[[nodiscard]] std::string peft_config_text(const LoraConfig&, ModelKind kind, std::string_view base);

}  // namespace partita::internal
