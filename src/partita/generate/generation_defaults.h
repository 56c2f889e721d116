// Selects the sampling settings: the user's options, else the model's generation_config.json, else the defaults of
// Sampling.
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

// Options given by the user.
struct GenerationRequest {
  std::optional<float> temperature, top_p;
  std::optional<int64_t> top_k, tokens;
  bool greedy = false;
};

struct GenerationChoice {
  Sampling sampling;
  int64_t tokens = 128;
  std::string published;  // the settings taken from the file, as one line; empty: none
};

// The model's temperature, top_k and top_p apply only if its do_sample is true, as in transformers. If do_sample is
// false, or missing from an existing config, decoding is greedy unless the user asked for sampling. Pure.
[[nodiscard]] GenerationChoice choose_generation(const GenerationRequest& wish, const GenerationConfig& config);

}  // namespace partita::internal
