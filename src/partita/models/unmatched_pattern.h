// Why a pattern of a plan (models/tensor_division.h) matches no parameter, and what to write instead. Pure.
//
//   unmatched_pattern("layers.*.attn", {.matrices = {"layers.0.attention.qkv.weight"}, .layers = 1})
//   // "layers.*.attn" matches no parameter of the model: the nearest names are layers.*.attention, ...
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

struct PatternNames {
  std::vector<std::string> matrices;  // names of the parameters that ranks may divide
  int64_t layers = 0;
  bool tied_head = false;
};

[[nodiscard]] std::string unmatched_pattern(std::string_view pattern, const PatternNames&);

// Whether the pattern matches the name or one of those above it: "layers.3.mlp" of "layers.3.mlp.up.weight".
[[nodiscard]] bool matches_name_or_above(std::string_view pattern, std::string_view name);

// "layers.3.mlp" of "layers.3.mlp.up"; empty for a name without points.
[[nodiscard]] std::string_view name_above(std::string_view name);

}  // namespace partita::internal
