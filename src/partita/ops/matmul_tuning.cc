#include "partita/ops/matmul_tuning.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/matmul_plan.h"
#endif

namespace partita::internal {

#ifdef PARTITA_CUDA
std::string matmul_library(at::Device device) { return device.is_cuda() ? cuda::matmul_library(device) : ""; }
void begin_matmul_trial(int round) { cuda::set_trial(round); }
void end_matmul_trial() { cuda::set_trial(-1); }
std::vector<MatmulTimes> take_matmul_times() { return cuda::take_times(); }
void use_matmul_algorithms(std::span<const MatmulChoice> choices) { cuda::use_algorithms(choices); }
#else
std::string matmul_library(at::Device) { return ""; }
void begin_matmul_trial(int) {}
void end_matmul_trial() {}
std::vector<MatmulTimes> take_matmul_times() { return {}; }
void use_matmul_algorithms(std::span<const MatmulChoice>) {}
#endif

float median_of(std::vector<float> values) {
  PARTITA_CHECK(!values.empty(), "the median of nothing");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

size_t fastest_candidate(const MatmulTimes& times) {
  size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < times.milliseconds.size(); ++i) {
    if (times.milliseconds[i].empty()) continue;
    const float median = median_of(times.milliseconds[i]);
    if (median < least) best = i, least = median;
  }
  return best;
}

}  // namespace partita::internal
