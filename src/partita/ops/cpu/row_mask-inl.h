// Rows of a dropout mask as multipliers.
#if defined(PARTITA_OPS_CPU_ROW_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_ROW_MASK_INL_H_
#undef PARTITA_OPS_CPU_ROW_MASK_INL_H_
#else
#define PARTITA_OPS_CPU_ROW_MASK_INL_H_
#endif

#include "partita/ops/cpu/dropout-inl.h"
#include "partita/ops/cpu/row_mask.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

// Multipliers of the C elements of a row of the operand, in `buffer` (C + kMaskPadding floats).
HWY_INLINE const float* row_multipliers(const RowMask& rows, int64_t row, int64_t C, float* buffer) {
  const int64_t at = rows.first_row + row, sample = rows.samples[static_cast<size_t>(at / rows.length)];
  const int64_t position = rows.context.position(at % rows.length, rows.length);
  return dropout_multipliers(rows.mask, sample, position * (rows.columns > 0 ? rows.columns : C) + rows.first_column, C,
                             buffer);
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_ROW_MASK_INL_H_
