// From logits to the next token. Pure: the random number is handed in.
//
//   Sampling how{.temperature = 0.8F, .top_k = 50, .top_p = 0.95F};
//   int32_t token = sample(logits, how, uniform(seed, position));
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace partita {

struct Sampling {
  float temperature = 1;  // 0: greedy, the token of the highest logit (the lowest id of equals)
  int64_t top_k = 0;      // only the k likeliest; 0: all
  float top_p = 1;        // only the likeliest that together reach p (A. Holtzman et al., "The curious case of neural
                          // text degeneration", 2020); at least one; 1: all
};

// Error: temperature < 0, top_k < 0, or top_p outside (0, 1].
void validate(const Sampling&);

// The tokens that may be drawn, likeliest first, with probabilities that sum to 1. top_k is applied before top_p.
struct Candidate {
  int32_t token;
  double probability;
};
[[nodiscard]] std::vector<Candidate> candidates(std::span<const float> logits, const Sampling&);

// `uniform` in [0, 1). Error: logits that are not finite (NaN or +inf).
[[nodiscard]] int32_t sample(std::span<const float> logits, const Sampling&, double uniform);

// A function of seed and position alone: the same text on every machine and number of threads.
[[nodiscard]] double uniform(uint64_t seed, int64_t position);

}  // namespace partita
