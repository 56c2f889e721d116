// Which algorithms matrix products run. The library behind them proposes several for a product, and its first guess is
// not always the fastest; which one is shows only inside training steps, where the card is as hot and its clock as low
// as it will be. So candidates are tried there, in turn, a candidate a step:
//
//   for (int round = 0; round < 24; ++round) {
//     begin_matmul_trial(round);        // every product runs candidate `round`, modulo their number, and is timed
//     engine.step(...);
//     end_matmul_trial();
//   }
//   std::vector<MatmulChoice> best;
//   for (const MatmulTimes& times : take_matmul_times())
//     best.push_back({times.product, times.algorithms[fastest_candidate(times)]});
//   use_matmul_algorithms(best);
//
// Algorithms may differ in the last bits of their results; each repeats itself. On the CPU there is nothing to choose.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace partita::internal {

struct MatmulTimes {
  std::string product;                           // what it multiplies: the key of a choice
  std::vector<std::string> algorithms;           // [candidate], opaque, in hexadecimal digits
  std::vector<std::vector<float>> milliseconds;  // [candidate][call]
};

struct MatmulChoice {
  std::string product, algorithm;
  friend bool operator==(const MatmulChoice&, const MatmulChoice&) = default;
};

// Library, its version and the card: choices made elsewhere mean nothing. Empty where there is nothing to choose.
[[nodiscard]] std::string matmul_library(at::Device);

void begin_matmul_trial(int round);
// Back to the algorithms in use. The device need not be done.
void end_matmul_trial();
// Of the products that were called in trials since the last time, in the order of their texts. Waits for the device.
[[nodiscard]] std::vector<MatmulTimes> take_matmul_times();

// From now on, for products that were made and for those to come. Others run the library's first candidate. An
// algorithm that the library does not take for its product is warned of, and left out.
void use_matmul_algorithms(std::span<const MatmulChoice>);

// The candidate with the smallest median (of an even number: the upper one); the first of equals. Candidates without
// calls are no candidates; 0 where none has any.
[[nodiscard]] size_t fastest_candidate(const MatmulTimes&);
// Of at least one value.
[[nodiscard]] float median_of(std::vector<float>);

}  // namespace partita::internal
