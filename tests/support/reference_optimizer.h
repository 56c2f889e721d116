// What every update is compared with: the optimizers on a whole parameter, in double.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "partita/optim/optimizer_options.h"

namespace partita::internal::test {

using Values = std::vector<double>;

inline double norm(const Values& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares);
}

// A whole parameter under its optimizer: AdamW and SGD as in torch.optim, LAMB as in its paper.
struct Reference {
  bool decay = false;
  Values w, a, b;  // weights; momentum or moments

  void step(const OptimizerOptions& options, const Values& g, double rate, int64_t update) {
    const double weight_decay = decay ? options.weight_decay : 0, t = static_cast<double>(update) + 1;
    if (options.kind == OptimizerKind::sgd) {
      for (size_t i = 0; i < w.size(); ++i) {
        a[i] = options.momentum * a[i] + g[i] + weight_decay * w[i];
        w[i] -= rate * a[i];
      }
      return;
    }
    Values u(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      a[i] = options.beta1 * a[i] + (1 - options.beta1) * g[i];
      b[i] = options.beta2 * b[i] + (1 - options.beta2) * g[i] * g[i];
      const double root = std::sqrt(b[i] / (1 - std::pow(options.beta2, t))) + options.epsilon;
      u[i] = a[i] / (1 - std::pow(options.beta1, t)) / root + weight_decay * w[i];
    }
    const double both = norm(w) * norm(u),
                 ratio = options.kind == OptimizerKind::lamb && both > 0 ? norm(w) / norm(u) : 1;
    for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * ratio * u[i];
  }
};

}  // namespace partita::internal::test
