#include "partita/interop/peft_names.h"

#include <fmt/format.h>

#include <map>

namespace partita::internal {

std::vector<LoraAdapter> lora_adapters(const ModelConfig& model, const LoraConfig& lora) {
  validate(lora, model.kind);
  struct Place {
    const HfParameter* parameter;
    const HfPiece* piece;
  };
  const std::vector<HfParameter> parameters = hf_parameters(model);
  std::map<std::string_view, Place> places;  // keyed by Hugging Face tensor name
  for (const HfParameter& parameter : parameters)
    for (const HfPiece& piece : parameter.pieces) places[piece.name] = {&parameter, &piece};

  std::vector<LoraAdapter> adapters;
  for (int64_t l = 0; l < model.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l);
    const std::string theirs = fmt::format("{}{}.{}.", hf_prefix(model.kind), hf_layers(model.kind), l);
    for (const LoraTarget& target : adapted_targets(lora, model.kind)) {
      LoraAdapter adapter;
      adapter.a = fmt::format("{}{}.lora_a", ours, target.part);
      adapter.b = fmt::format("{}{}.lora_b", ours, target.part);
      adapter.module = theirs + std::string(target.hugging_face);
      const auto [parameter, piece] = places.at(adapter.module + ".weight");
      adapter.matrix = parameter->name;
      adapter.row = piece->row;
      adapter.rows = piece->rows;
      adapter.in = parameter->shape[1];
      adapters.push_back(std::move(adapter));
    }
  }
  return adapters;
}

std::vector<HfParameter> peft_parameters(const ModelConfig& model, const LoraConfig& lora) {
  std::vector<HfParameter> parameters;
  const auto add = [&](const std::string& ours, const std::string& theirs, int64_t rows, int64_t columns) {
    parameters.push_back({ours, {rows, columns}, {{theirs, {rows, columns}, 0, rows, false}}});
  };
  for (const LoraAdapter& adapter : lora_adapters(model, lora)) {
    const std::string module = "base_model.model." + adapter.module;
    add(adapter.a, module + ".lora_A.weight", lora.rank, adapter.in);
    add(adapter.b, module + ".lora_B.weight", adapter.rows, lora.rank);
  }
  return parameters;
}

}  // namespace partita::internal
