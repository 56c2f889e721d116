// The element type of each tensor in a Hugging Face folder, so that an export can restore it: one usual type and the
// exceptions (bf16 matrices with fp32 norms).
//
//   StoredTypes types = weights.stored_types();
//   types.of("model.norm.weight");                       // F32
//   scalars["stored_as"] = to_json(types);
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "partita/checkpoint/safetensors.h"

namespace partita::internal {

struct StoredTypes {
  ElementType usual = ElementType::f32;                         // f32, f16 or bf16
  std::map<std::string, ElementType, std::less<>> others = {};  // by the tensor's Hugging Face name

  [[nodiscard]] ElementType of(std::string_view name) const;
  bool operator==(const StoredTypes&) const = default;
};

// "BF16", or {"usual": "BF16", "F32": ["model.norm.weight", ...]}.
[[nodiscard]] nlohmann::json to_json(const StoredTypes&);
// Error: another form, or a type that weights cannot be exported in.
[[nodiscard]] StoredTypes stored_types_from(const nlohmann::json&);

}  // namespace partita::internal
