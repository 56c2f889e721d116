// Dropout mask parameters of a CPU kernel, read once from Dropout. Without dropout the threshold is 0.
#pragma once
#include <span>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/cpu/philox_stream.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct Mask {
  PhiloxKey key{};
  uint32_t site = 0, threshold = 0;
  float scale = 1;
};

// Elements written beyond the requested count.
inline constexpr int64_t kMaskPadding = kNumberPadding;

[[nodiscard]] inline std::span<const int64_t> sample_ids(const Dropout& dropout) {
  if (!dropout.samples.defined()) return {};
  return {dropout.samples.const_data_ptr<int64_t>(), static_cast<size_t>(dropout.samples.numel())};
}

// `samples`: number of samples the kernel processes.
[[nodiscard]] inline Mask make_mask(const Dropout& dropout, int64_t samples) {
  if (dropout.p == 0) return {};
  PARTITA_CHECK(dropout.p > 0 && dropout.p < 1, "dropout probability {} is not in [0, 1)", dropout.p);
  const auto found = static_cast<int64_t>(sample_ids(dropout).size());
  PARTITA_CHECK(dropout.now != nullptr && found == samples, "dropout needs the step and the ids of {} samples, got {}",
                samples, found);
  return {dropout_key(dropout.now->seed, dropout.now->step), dropout.site, dropout_threshold(dropout.p),
          dropout_scale(dropout.p)};
}

}  // namespace partita::internal
