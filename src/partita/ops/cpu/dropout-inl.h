// Dropout masks as vectors of multipliers (bits from base/random.h).
//
//   const float* multiplier = dropout_multipliers(mask, sample, first, count, buffer);
//   y[i] = multiplier[i] * x[i];                                   // scale where kept, else 0
#if defined(PARTITA_OPS_CPU_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_DROPOUT_INL_H_
#undef PARTITA_OPS_CPU_DROPOUT_INL_H_
#else
#define PARTITA_OPS_CPU_DROPOUT_INL_H_
#endif

#include "partita/ops/cpu/mask.h"
#include "partita/ops/cpu/philox-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

// Multipliers of the elements first .. first + count - 1 of a sample, in `buffer` (count + kMaskPadding floats).
HWY_INLINE const float* dropout_multipliers(const Mask& mask, int64_t sample, int64_t first, int64_t count,
                                            float* HWY_RESTRICT buffer) {
  const auto threshold = hn::Set(DU32(), mask.threshold);
  const V scale = constant(mask.scale);
  const int64_t begin = first / 8, end = (first + count + 7) / 8;
  float* out = buffer;
  for (int64_t block = begin; block < end; block += blocks_at_once()) {
    HWY_ALIGN uint16_t numbers[HWY_MAX_BYTES / sizeof(uint64_t) * 8];
    philox_blocks({mask.key, mask.site, sample}, block, numbers);
    for (int64_t i = 0; i < 8 * blocks_at_once(); i += lanes(), out += lanes()) {
      const auto number = hn::PromoteTo(DU32(), hn::LoadU(DU16(), numbers + i));
      const auto kept = hn::RebindMask(D(), hn::Not(hn::Lt(number, threshold)));
      hn::StoreU(hn::IfThenElseZero(kept, scale), D(), out);
    }
  }
  return buffer + (first - 8 * begin);
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_DROPOUT_INL_H_
