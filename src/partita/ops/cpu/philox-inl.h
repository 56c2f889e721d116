// 16-bit random numbers of base/random.h, computed in vectors of Philox blocks.
//
//   uint16_t buffer[count + kNumberPadding];
//   const uint16_t* number = philox_numbers(stream, first, count, buffer);    // number[i] belongs to element first + i
#if defined(PARTITA_OPS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_PHILOX_INL_H_
#undef PARTITA_OPS_CPU_PHILOX_INL_H_
#else
#define PARTITA_OPS_CPU_PHILOX_INL_H_
#endif

#include "partita/ops/cpu/philox_stream.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

using DU64 = hn::ScalableTag<uint64_t>;
using VU64 = hn::Vec<DU64>;

// Counters, then random words, with one block per 64-bit lane. Only the lower 32 bits of a lane count: multiplication
// leaves unused values in the upper half.
struct PhiloxLanes {
  VU64 word[4];
};

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE PhiloxLanes philox_lanes(const PhiloxLanes& c, PhiloxKey key) {
  PhiloxBlock counter;
  for (size_t i = 0; i < 4; ++i) counter[i] = static_cast<uint32_t>(hn::GetLane(c.word[i]));
  const PhiloxBlock words = philox(counter, key);
  PhiloxLanes out;
  for (size_t i = 0; i < 4; ++i) out.word[i] = hn::Set(DU64(), words[i]);
  return out;
}

HWY_INLINE int64_t blocks_at_once() { return 1; }
// The 16-bit numbers of blocks_at_once() blocks starting at `block`, in element order.
HWY_INLINE void philox_blocks(const PhiloxStream& stream, int64_t block, uint16_t* out) {
  const PhiloxBlock words = stream.block(block);
  for (int64_t i = 0; i < 8; ++i) out[i] = static_cast<uint16_t>(random16(words, i));
}

#else

HWY_INLINE int64_t blocks_at_once() { return static_cast<int64_t>(hn::Lanes(DU64())); }

// The low 32 bits of each lane times a 32-bit constant.
HWY_INLINE VU64 multiply_low(VU64 x, uint32_t constant_factor) {
  return hn::MulEven(hn::BitCast(hn::Repartition<uint32_t, DU64>(), x),
                     hn::Set(hn::Repartition<uint32_t, DU64>(), constant_factor));
}

// Each lane's offset from the first block, chosen so that interleaving puts the blocks in order: 0 h 1 h+1 ...
HWY_INLINE VU64 block_offsets() {
  const DU64 d;
  const auto lane = hn::Iota(d, 0);
  const auto odd = hn::And(lane, hn::Set(d, 1));
  const auto half = hn::Set(d, static_cast<uint64_t>(blocks_at_once() / 2));
  return hn::Add(hn::ShiftRight<1>(lane), hn::IfThenElseZero(hn::Ne(odd, hn::Zero(d)), half));
}

HWY_INLINE PhiloxLanes philox_lanes(PhiloxLanes c, PhiloxKey key) {
  const DU64 d;
  for (int round = 0; round < 10; ++round) {
    const VU64 a = multiply_low(c.word[0], 0xD2511F53), b = multiply_low(c.word[2], 0xCD9E8D57);
    c.word[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c.word[1]), hn::Set(d, key[0]));
    c.word[1] = b;
    c.word[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c.word[3]), hn::Set(d, key[1]));
    c.word[3] = a;
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return c;
}

// The 16-bit numbers of blocks_at_once() blocks starting at `block`, in element order.
HWY_INLINE void philox_blocks(const PhiloxStream& stream, int64_t block, uint16_t* out) {
  const DU64 d;
  const PhiloxLanes c = philox_lanes({{hn::Add(block_offsets(), hn::Set(d, static_cast<uint64_t>(block))),
                                       hn::Set(d, stream.site), hn::Set(d, static_cast<uint32_t>(stream.id)),
                                       hn::Set(d, static_cast<uint32_t>(static_cast<uint64_t>(stream.id) >> 32))}},
                                     stream.key);
  const VU64 low = hn::Set(d, 0xFFFFFFFF);
  const VU64 words01 = hn::Or(hn::And(c.word[0], low), hn::ShiftLeft<32>(c.word[1]));
  const VU64 words23 = hn::Or(hn::And(c.word[2], low), hn::ShiftLeft<32>(c.word[3]));
  const hn::Repartition<uint16_t, DU64> d16;
  hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d, words01, words23)), d16, out);
  hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d, words01, words23)), d16, out + hn::Lanes(d16));
}

#endif

// Writes the numbers of elements first .. first + count - 1 to `buffer` (of count + kNumberPadding) and returns a
// pointer to the first; whole vectors may be read past the last.
HWY_INLINE const uint16_t* philox_numbers(const PhiloxStream& stream, int64_t first, int64_t count, uint16_t* buffer) {
  const int64_t begin = first / 8, end = (first + count + 7) / 8;
  for (int64_t block = begin; block < end; block += blocks_at_once())
    philox_blocks(stream, block, buffer + 8 * (block - begin));
  return buffer + (first - 8 * begin);
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_PHILOX_INL_H_
