// How text is drawn: what the user asks for, else what the model's generation_config.json says, else what Sampling
// says.
//
//   const GenerationChoice choice = choose_generation({.temperature = 0.8F}, source.generation);
//   if (!choice.published.empty()) log::info("{}", choice.published);      // "generation_config.json: top_p 0.9"
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "partita/generate/sampling.h"
#include "partita/interop/generation_config.h"

namespace partita::internal {

// Options that were given.
struct GenerationWish {
  std::optional<float> temperature, top_p;
  std::optional<int64_t> top_k, tokens;
  bool greedy = false;
};

struct GenerationChoice {
  Sampling sampling;
  int64_t tokens = 128;
  std::string published;  // what of it the file says, as a line; empty: nothing
};

// The model's temperature, top_k and top_p apply only if its do_sample is true, as in transformers. do_sample false, or
// missing in what the model says, means greedy where nothing about sampling was asked for. Pure.
[[nodiscard]] GenerationChoice choose_generation(const GenerationWish& wish, const GenerationConfig& config);

}  // namespace partita::internal
