// Dropout as defined by base/random.h, element by element: the reference for the kernels' masks.
#pragma once
#include <span>
#include <vector>

#include "partita/base/random.h"
#include "partita/ops/dropout.h"
#include "tests/ops/reference.h"

namespace partita::internal::reference {

inline const StepScalars kNow{.seed = 1234, .step = 56};
inline const std::vector<int64_t> kSamples = {7, 0, (int64_t{5} << 32) + 3, 1000};
inline constexpr uint32_t kSite = 35;

// Of the first `samples` of kSamples.
inline Dropout dropout_of(float p, int64_t samples) {
  return {.p = p,
          .site = kSite,
          .now = &kNow,
          .samples = sample_ids(std::span(kSamples).first(static_cast<size_t>(samples)))};
}

// Of a part of the rows of these samples.
inline Dropout dropout_of_part(Dropout whole, int64_t first_row, int64_t rows) {
  whole.first_row = first_row, whole.rows = rows;
  return whole;
}

// What each of `elements` elements a sample is multiplied by.
inline Values dropout_multipliers(float p, int64_t samples, int64_t elements, uint32_t site = kSite) {
  Values out;
  const PhiloxKey key = dropout_key(kNow.seed, kNow.step);
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t e = 0; e < elements; ++e) {
      const PhiloxBlock block = dropout_block(key, kSamples[static_cast<size_t>(s)], site, e / 8);
      out.push_back(dropout_keeps(block, e, dropout_threshold(p)) ? dropout_scale(p) : 0);
    }
  return out;
}

}  // namespace partita::internal::reference
