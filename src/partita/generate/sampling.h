// Samples the next token from logits. Pure: the caller supplies the random number.
//
//   Sampling how{.temperature = 0.8F, .top_k = 50, .top_p = 0.95F};
//   int32_t token = sample(logits, how, uniform(seed, position));
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace partita {

struct Sampling {
  float temperature = 1;  // 0: greedy, the token with the highest logit (ties: the lowest id)
  int64_t top_k = 0;      // keep only the k most likely; 0: all
  float top_p = 1;        // keep only the most likely whose probabilities reach p, at least one; 1: all
};

// Error: temperature < 0, top_k < 0, or top_p outside (0, 1].
void validate(const Sampling&);

// The tokens that may be sampled, most likely first, with probabilities that sum to 1. top_k is applied before top_p.
struct Candidate {
  int32_t token;
  double probability;
};
[[nodiscard]] std::vector<Candidate> candidates(std::span<const float> logits, const Sampling&);

// `uniform` in [0, 1). Error: logits that are not finite (NaN or +inf).
[[nodiscard]] int32_t sample(std::span<const float> logits, const Sampling&, double uniform);

// Depends only on seed and position: the same text on every machine and with any number of threads.
[[nodiscard]] double uniform(uint64_t seed, int64_t position);

}  // namespace partita
