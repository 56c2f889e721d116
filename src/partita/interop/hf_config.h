// config.json of a Hugging Face folder, as `transformers` 4 and 5 write it, to a ModelConfig and back.
//
//   const HfConfig hf = parse_hf_config(read_file(folder / "config.json"), folder / "config.json");
//   for (const std::string& warning : hf.warnings) log::warn("{}", warning);
//   write_file(out / "config.json", hf_config_text(hf.model, DType::bf16, hf.tokens));
//
// GPT-2 (model_type gpt2) and Llama 1, 2, 3.x, TinyLlama (model_type llama) are read. What a file leaves out has the
// default of transformers' GPT2Config or LlamaConfig. hf_fields.h lists every field that is known: one that is read is
// checked for its type, one that would change the function of the weights must have the value that is built here, and
// one that is on no list, and says something, gives a warning with its name.
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
  // bos_token_id, eos_token_id and pad_token_id where the file has them (generation_config.h reads them).
  nlohmann::json tokens = nlohmann::json::object();
  std::vector<std::string> warnings;  // a line each: what was passed over
};

// Error: no JSON object; another kind of model; a field of the wrong type or with a value that is not supported, with
// its name, its value and what is supported. `path` is for the messages.
[[nodiscard]] HfConfig parse_hf_config(std::string_view text, const std::filesystem::path& path);

// The text of a config.json that `transformers` 4 and 5 read alike. `stored`: the dtype of the weights beside it (fp32,
// bf16 or fp16).
[[nodiscard]] std::string hf_config_text(const ModelConfig&, DType stored,
                                         const nlohmann::json& tokens = nlohmann::json::object());

}  // namespace partita::internal
