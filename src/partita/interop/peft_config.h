// adapter_config.json, in which PEFT says what a folder of low-rank adapters is, to a LoraConfig and back.
//
//   const PeftConfig peft = parse_peft_config(read_file(path), path, ModelKind::llama);
//   write_file(path, peft_config_text(peft.lora, ModelKind::llama, peft.base));
//
// Plain adapters of linears (peft_type LORA) are read. Every field of PEFT's LoraConfig is on a list: DoRA,
// rank-stabilized scaling, trained biases, ranks by pattern, initializations that change the base (PiSSA, OLoRA, ...)
// and the like are errors by name, and so is a field that is on no list, since new ones are mostly new kinds of
// adapters.
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
  std::string base;  // base_model_name_or_path: a folder, or a name on Hugging Face's hub; empty: not said
  std::vector<std::string> warnings;
};

// Those of LoraConfig, of PEFT 0.4 to 0.21.
[[nodiscard]] std::span<const KnownField> peft_fields();

// `kind`: of the model that is adapted. Error: as parse_hf_config, and those of validate(lora).
[[nodiscard]] PeftConfig parse_peft_config(std::string_view text, const std::filesystem::path& path, ModelKind kind);

// base_model_name_or_path alone, for which the kind of model need not be known yet; empty: not said.
[[nodiscard]] std::string peft_base(std::string_view text, const std::filesystem::path& path);

[[nodiscard]] std::string peft_config_text(const LoraConfig&, ModelKind kind, std::string_view base);

}  // namespace partita::internal
