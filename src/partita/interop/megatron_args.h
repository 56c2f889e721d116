// The model that a checkpoint of Megatron-LM holds, from the arguments of the training that are in it. Pure.
//
//   const ModelConfig model = megatron_model(*file.arguments(), file.path());
//
// GPT (learned positions, LayerNorm, GELU) is our gpt2; Llama (rotary positions, RMSNorm, SwiGLU, no biases) our llama.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "partita/interop/field_list.h"
#include "partita/models/config.h"

namespace partita::internal {

// The arguments that decide what a model computes.
[[nodiscard]] std::span<const KnownField> megatron_fields();

// The vocabulary is the padded one. Error: an argument that is missing, of another type, or asks for a model that is
// neither of the two; names it, with its value and what is supported. `path` is for the message.
[[nodiscard]] ModelConfig megatron_model(const nlohmann::json& arguments, const std::filesystem::path& path);

// Of the settings that decide what a model computes: those in which two descriptions of one model differ, as
// "layers 2 and 3, norm_epsilon 1e-05 and 1e-06"; empty: none. The vocabulary and the number of positions may differ:
// one may be padded, the other extended.
[[nodiscard]] std::string model_differences(const ModelConfig&, const ModelConfig&);

}  // namespace partita::internal
