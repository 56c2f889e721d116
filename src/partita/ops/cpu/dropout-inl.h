// Dropout masks of base/random.h, a vector of Philox blocks at a time.
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
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::HWY_NAMESPACE {

// Multipliers of the elements first .. first + count - 1 of a sample, in `buffer` (count + kMaskPadding floats).
#if HWY_TARGET == HWY_SCALAR

HWY_INLINE const float* dropout_multipliers(const Mask& mask, int64_t sample, int64_t first, int64_t count,
                                            float* buffer) {
  const int64_t begin = first / 8, end = (first + count + 7) / 8;
  for (int64_t block = begin; block < end; ++block) {
    const PhiloxBlock numbers = dropout_block(mask.key, sample, mask.site, block);
    for (int64_t i = 0; i < 8; ++i)
      buffer[8 * (block - begin) + i] = dropout_keeps(numbers, i, mask.threshold) ? mask.scale : 0.0F;
  }
  return buffer + (first - 8 * begin);
}

#else

using DU64 = hn::ScalableTag<uint64_t>;
using VU64 = hn::Vec<DU64>;

// The low 32 bits of each lane times a 32-bit constant.
HWY_INLINE VU64 multiply_low(VU64 x, uint32_t constant_factor) {
  return hn::MulEven(hn::BitCast(hn::Repartition<uint32_t, DU64>(), x),
                     hn::Set(hn::Repartition<uint32_t, DU64>(), constant_factor));
}

// The 16-bit numbers of as many blocks as there are 64-bit lanes, from block `first` on, in the order of their elements.
// A 64-bit lane carries one 32-bit word of one block; what a product leaves in its upper half is never read.
HWY_INLINE void philox_blocks(const Mask& mask, int64_t sample, VU64 block, uint16_t* out) {
  const DU64 d;
  VU64 c0 = block, c1 = hn::Set(d, mask.site), c2 = hn::Set(d, static_cast<uint32_t>(sample)),
       c3 = hn::Set(d, static_cast<uint32_t>(static_cast<uint64_t>(sample) >> 32));
  PhiloxKey key = mask.key;
  for (int round = 0; round < 10; ++round) {
    const VU64 a = multiply_low(c0, 0xD2511F53), b = multiply_low(c2, 0xCD9E8D57);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, key[0]));
    c1 = b;
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, key[1]));
    c3 = a;
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  const VU64 low = hn::Set(d, 0xFFFFFFFF);
  const VU64 words01 = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
  const VU64 words23 = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
  const hn::Repartition<uint16_t, DU64> d16;
  hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d, words01, words23)), d16, out);
  hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d, words01, words23)), d16, out + hn::Lanes(d16));
}

HWY_INLINE const float* dropout_multipliers(const Mask& mask, int64_t sample, int64_t first, int64_t count,
                                            float* HWY_RESTRICT buffer) {
  const DU64 d;
  const auto blocks_at_once = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint64_t order[HWY_MAX_BYTES / sizeof(uint64_t)];  // where interleaving will bring a lane: 0 h 1 h+1 ...
  for (int64_t lane = 0; lane < blocks_at_once; ++lane)
    order[lane] = static_cast<uint64_t>(lane / 2 + (lane % 2) * (blocks_at_once / 2));
  const VU64 offsets = hn::Load(d, order);
  const auto threshold = hn::Set(DU32(), mask.threshold);
  const V scale = constant(mask.scale);
  const int64_t begin = first / 8, end = (first + count + 7) / 8;
  float* out = buffer;
  for (int64_t block = begin; block < end; block += blocks_at_once) {
    HWY_ALIGN uint16_t numbers[HWY_MAX_BYTES / sizeof(uint64_t) * 8];
    philox_blocks(mask, sample, hn::Add(offsets, hn::Set(d, static_cast<uint64_t>(block))), numbers);
    for (int64_t i = 0; i < 8 * blocks_at_once; i += lanes(), out += lanes()) {
      const auto number = hn::PromoteTo(DU32(), hn::LoadU(DU16(), numbers + i));
      const auto kept = hn::RebindMask(D(), hn::Not(hn::Lt(number, threshold)));
      hn::StoreU(hn::IfThenElseZero(kept, scale), D(), out);
    }
  }
  return buffer + (first - 8 * begin);
}

#endif

}  // namespace partita::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_DROPOUT_INL_H_
