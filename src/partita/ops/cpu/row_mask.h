// The dropout mask of activations [samples * length, C], or of a part of their rows: maps rows to samples and offsets
// within them.
#pragma once
#include "partita/ops/cpu/mask.h"
#include "partita/ops/dropout.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal {

struct RowMask {
  RowMask(const Dropout& dropout, int64_t rows)
      : samples(sample_ids(dropout)),
        first_row(dropout.first_row),
        first_column(dropout.first_column),
        columns(dropout.columns),
        context(dropout.context) {
    if (dropout.p == 0 || rows == 0) return;
    length = check_mask_rows(dropout, rows);
    mask = make_mask(dropout, static_cast<int64_t>(samples.size()));
  }
  // Also false if p is so small that no element is dropped.
  [[nodiscard]] bool drops() const { return mask.threshold > 0; }

  Mask mask;
  std::span<const int64_t> samples;
  int64_t first_row;              // of the micro-batch: the operand's row 0
  int64_t first_column, columns;  // of the whole rows; columns 0: the operand has them all
  ContextSplit context;           // positions of the rows of a sample
  int64_t length = 1;             // rows per sample
};

}  // namespace partita::internal
