// Converts between config.json of a Hugging Face folder, as written by `transformers` 4 and 5, and ModelConfig.
//
//   const HfConfig hf = parse_hf_config(read_file(folder / "config.json"), folder / "config.json");
//   for (const std::string& warning : hf.warnings) log::warn("{}", warning);
//   write_file(out / "config.json", hf_config_text(hf.model, DType::bf16, hf.tokens));
//
// Supported are GPT-2 (model_type gpt2) and Llama 1, 2, 3.x and TinyLlama (model_type llama). Missing fields get the
// defaults of transformers' GPT2Config or LlamaConfig. hf_fields.h lists every known field: fields that are read are
// checked for their type, fields that change the model's function must have the supported value, and unknown fields
// that are set give a warning.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/models/config.h"

namespace partita::internal {

struct HfConfig {
  ModelConfig model;
  // The file's bos_token_id, eos_token_id and pad_token_id, if any (read by generation_config.h).
  nlohmann::json tokens = nlohmann::json::object();
  std::vector<std::string> warnings;  // one line per ignored setting
};

// Error: not a JSON object; an unsupported kind of model; a field of the wrong type or with an unsupported value (the
// message gives its name, its value and what is supported). `path` is for error messages.
[[nodiscard]] HfConfig parse_hf_config(std::string_view text, const std::filesystem::path& path);

// The text of a config.json that `transformers` 4 and 5 interpret alike. `stored`: dtype of the weights in the same
// folder (fp32, bf16 or fp16).
[[nodiscard]] std::string hf_config_text(const ModelConfig&, DType stored,
                                         const nlohmann::json& tokens = nlohmann::json::object());

}  // namespace partita::internal
