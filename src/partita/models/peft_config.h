// adapter_config.json, in which PEFT says what a folder of low-rank adapters is, to a LoraConfig and back.
//
//   const PeftConfig peft = parse_peft_config(read_file(path), path, ModelKind::llama);
//   write_file(path, peft_config_text(peft.lora, ModelKind::llama, peft.base));
//
// Read are plain adapters of linears (peft_type LORA). As in hf_config.h no field that could change their function is
// passed over: DoRA, rank-stabilised scaling, trained biases, ranks by pattern and the like are errors by name.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "partita/models/lora.h"

namespace partita {

struct PeftConfig {
  LoraConfig lora;
  std::string base;  // base_model_name_or_path: a folder, or a name on Hugging Face's hub; empty: not said
  std::vector<std::string> warnings;
};

// `kind`: of the model that is adapted. Error: as parse_hf_config, and those of validate(lora).
[[nodiscard]] PeftConfig parse_peft_config(std::string_view text, const std::filesystem::path& path, ModelKind kind);

// base_model_name_or_path alone, for which the kind of model need not be known yet; empty: not said.
[[nodiscard]] std::string peft_base(std::string_view text, const std::filesystem::path& path);

[[nodiscard]] std::string peft_config_text(const LoraConfig&, ModelKind kind, std::string_view base);

}  // namespace partita
