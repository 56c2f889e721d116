// The softmax of a row whose logits are divided into parts, put together from the statistics of the parts
// (softmax_statistics in ops/cross_entropy.h).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace partita::internal {

struct SplitSoftmax {
  // statistics [parts, n, 3]
  SplitSoftmax() = default;
  SplitSoftmax(const float* statistics, int64_t parts, int64_t n, int64_t row) {
    const float* of_row = statistics + 3 * row;
    maximum = of_row[0];
    for (int64_t p = 1; p < parts; ++p) maximum = std::max(maximum, of_row[3 * n * p]);
    for (int64_t p = 0; p < parts; ++p) {
      const float* part = of_row + 3 * n * p;
      sum += part[1] * std::exp(static_cast<double>(part[0]) - maximum);
      label_logit += part[2];  // 0 but in one part
    }
  }
  // log sum exp(row) - row[label]
  [[nodiscard]] double loss() const { return maximum + std::log(sum) - label_logit; }
  [[nodiscard]] double label_probability() const { return std::exp(label_logit - maximum) / sum; }

  float maximum = 0;
  double sum = 0;  // of exp(logit - maximum)
  double label_logit = 0;
};

}  // namespace partita::internal
