// What a CPU kernel needs to draw its dropout masks, read once from Dropout. No dropout: threshold 0.
#pragma once
#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/cpu/philox_stream.h"
#include "partita/ops/dropout.h"

namespace partita {

struct Mask {
  PhiloxKey key{};
  uint32_t site = 0, threshold = 0;
  float scale = 1;
};

// So many elements more than asked for are written.
inline constexpr int64_t kMaskPadding = kNumberPadding;

// `samples`: how many the kernel works on.
[[nodiscard]] inline Mask make_mask(const Dropout& dropout, int64_t samples) {
  if (dropout.p == 0) return {};
  PARTITA_CHECK(dropout.p > 0 && dropout.p < 1, "dropout probability {} is not in [0, 1)", dropout.p);
  PARTITA_CHECK(dropout.now != nullptr && static_cast<int64_t>(dropout.samples.size()) == samples,
                "dropout needs the step and the ids of {} samples, got {}", samples, dropout.samples.size());
  return {dropout_key(dropout.now->seed, dropout.now->step), dropout.site, dropout_threshold(dropout.p),
          dropout_scale(dropout.p)};
}

}  // namespace partita
