// Selection of matmul algorithms. The library proposes several per matmul, and its first choice is not always the
// fastest. Which one is fastest only shows within training steps, at the card's sustained temperature and clocks, so
// candidates are tried there, one per step:
//
//   for (int round = 0; round < 24; ++round) {
//     begin_matmul_trial(round);        // every matmul runs candidate `round` modulo its number of candidates, timed
//     engine.step(...);
//     end_matmul_trial();
//   }
//   std::vector<MatmulChoice> best;
//   for (const MatmulTimes& times : take_matmul_times())
//     best.push_back({times.product, times.algorithms[fastest_candidate(times)]});
//   use_matmul_algorithms(best);
//
// Algorithms may differ in the last bits of their results; each is reproducible. On the CPU there is no choice.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace partita::internal {

struct MatmulTimes {
  std::string product;                           // description of the matmul: the key of a choice
  std::vector<std::string> algorithms;           // [candidate], opaque, in hexadecimal digits
  std::vector<std::vector<float>> milliseconds;  // [candidate][call]
};

struct MatmulChoice {
  std::string product, algorithm;
  friend bool operator==(const MatmulChoice&, const MatmulChoice&) = default;
};

// The library, its version and the card; choices are valid only for this string. Empty where there is no choice.
[[nodiscard]] std::string matmul_library(at::Device);

void begin_matmul_trial(int round);
// Returns to the algorithms in use. Does not wait for the device.
void end_matmul_trial();
// Times of the matmuls run in trials since the last call, sorted by `product`. Waits for the device.
[[nodiscard]] std::vector<MatmulTimes> take_matmul_times();

// Applies to existing and future matmuls; all others run the library's first candidate. Algorithms that the library
// rejects for their matmul are skipped with a warning.
void use_matmul_algorithms(std::span<const MatmulChoice>);

// The candidate with the smallest median (the upper one for an even count), the first on ties. Candidates without calls
// are ignored; 0 if there are none.
[[nodiscard]] size_t fastest_candidate(const MatmulTimes&);
// Requires at least one value.
[[nodiscard]] float median_of(std::vector<float>);

}  // namespace partita::internal
