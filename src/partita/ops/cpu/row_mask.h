// The dropout mask of activations [samples * length, C]: maps rows to samples and offsets within them.
#pragma once
#include "partita/base/error.h"
#include "partita/ops/cpu/mask.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct RowMask {
  RowMask(const Dropout& dropout, int64_t rows) : samples(sample_ids(dropout)) {
    if (dropout.p == 0 || rows == 0) return;
    const auto count = static_cast<int64_t>(samples.size());
    PARTITA_CHECK(count > 0 && rows % count == 0, "{} rows are not whole samples: {} ids", rows, count);
    length = rows / count;
    mask = make_mask(dropout, count);
  }
  // Also false if p is so small that no element is dropped.
  [[nodiscard]] bool drops() const { return mask.threshold > 0; }

  Mask mask;
  std::span<const int64_t> samples;
  int64_t length = 1;  // rows per sample
};

}  // namespace partita::internal
