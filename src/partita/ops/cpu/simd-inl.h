// fp32 vectors over fp32, bf16 and fp16 memory, compiled once per instruction set (Highway).
//
//   for_vectors(n, [&](int64_t i, auto part) {           // i = 0, L, 2L ...; part: All, or First{n - i} at the end
//     store(hn::Mul(load(x + i, part), scale), y + i, part);
//   });
//
// bf16 and fp16 are widened when loaded and rounded to nearest even when stored; NaN stays NaN. Lanes beyond a partial
// load are 0. No pragma once: included once per instruction set.
#if defined(PARTITA_OPS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_SIMD_INL_H_
#undef PARTITA_OPS_CPU_SIMD_INL_H_
#else
#define PARTITA_OPS_CPU_SIMD_INL_H_
#endif

#include <ATen/core/Tensor.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DU32 = hn::RebindToUnsigned<D>;
using DU16 = hn::Rebind<uint16_t, D>;

// A whole vector, or only its first `count` lanes.
struct All {};
struct First {
  int64_t count;
};

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE V constant(float x) { return hn::Set(D(), x); }

template <class F>
HWY_INLINE void for_vectors(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) f(i, All{});
  if (i < n) f(i, First{n - i});
}

HWY_INLINE V load(const float* p, All) { return hn::LoadU(D(), p); }
HWY_INLINE V load(const at::BFloat16* p, All) {
  const auto bits = hn::LoadU(DU16(), reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DU32(), bits)));
}
HWY_INLINE V load(const at::Half* p, All) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, D> d;
  return hn::PromoteTo(D(), hn::LoadU(d, reinterpret_cast<const hwy::float16_t*>(p)));
#else  // Highway's emulation turns NaN into infinity
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  for (int64_t i = 0; i < lanes(); ++i) wide[i] = p[i];
  return hn::Load(D(), wide);
#endif
}

// Upper halves of the fp32 bits, rounded to nearest even; NaN becomes quiet, so that it cannot round to infinity.
HWY_INLINE hn::Vec<DU32> bf16_bits(V v) {
  const DU32 d;
  const auto bits = hn::BitCast(d, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x00400000));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, rounded);
}

HWY_INLINE V store(V v, float* p, All) {
  hn::StoreU(v, D(), p);
  return v;
}
// The upper halves of 32-bit words.
HWY_INLINE hn::Vec<DU16> upper_halves(hn::Vec<DU32> words) {
  const hn::RebindToSigned<DU32> signed_tag;  // in range, so the saturating demotion changes nothing
  return hn::DemoteTo(DU16(), hn::BitCast(signed_tag, hn::ShiftRight<16>(words)));
}
HWY_INLINE void store_upper(hn::Vec<DU32> words, at::BFloat16* p) {
  hn::StoreU(upper_halves(words), DU16(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE V store(V v, at::BFloat16* p, All) {
  const auto bits = bf16_bits(v);
  store_upper(bits, p);
  return hn::BitCast(D(), hn::And(bits, hn::Set(DU32(), 0xFFFF0000U)));
}
HWY_INLINE V store(V v, at::Half* p, All) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, D> d;
  hn::StoreU(hn::DemoteTo(d, v), d, reinterpret_cast<hwy::float16_t*>(p));
#else  // Highway's emulation does not round
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, D(), wide);
  for (int64_t i = 0; i < lanes(); ++i) p[i] = at::Half(wide[i]);
#endif
  return load(p, All{});
}

// Goes through a small buffer to stay within the array.
template <class T>
HWY_INLINE V load(const T* p, First part) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(static_cast<void*>(buffer), p, static_cast<size_t>(part.count) * sizeof(T));
  return load(buffer, All{});
}
template <class T>
HWY_INLINE V store(V v, T* p, First part) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(float)];
  const V stored = store(v, buffer, All{});
  std::memcpy(static_cast<void*>(p), buffer, static_cast<size_t>(part.count) * sizeof(T));
  return stored;
}

// Stores past the caches: for arrays that are only written and would leave the caches before they are read, because a
// usual store reads each line first. p is aligned to a vector of its type. hwy::FlushStream() must follow.
HWY_INLINE void stream(V v, float* p, All) { hn::Stream(v, D(), p); }
HWY_INLINE void stream(V v, at::BFloat16* p, All) {
  hn::Stream(upper_halves(bf16_bits(v)), DU16(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void stream(V v, at::Half* p, All) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, D> d;
  hn::Stream(hn::BitCast(DU16(), hn::DemoteTo(d, v)), DU16(), reinterpret_cast<uint16_t*>(p));
#else
  store(v, p, All{});
#endif
}
template <class T>
HWY_INLINE void stream(V v, T* p, First part) {
  store(v, p, part);
}

// v, with `other` in the lanes beyond the array.
HWY_INLINE V keep(V v, All, float = 0) { return v; }
HWY_INLINE V keep(V v, First part, float other = 0) {
  return hn::IfThenElse(hn::FirstN(D(), static_cast<size_t>(part.count)), v, constant(other));
}

HWY_INLINE float sum_of_lanes(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
HWY_INLINE float max_of_lanes(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }

// e^x for x <= 88, within 2 ulp; 0 below -87.3; NaN stays NaN.
HWY_INLINE V exp(V x) {
  const DU32 du;
  const V least = constant(-87.3F);
  const auto tiny = hn::Lt(x, least);
  const V clamped = hn::IfThenElse(tiny, least, x);  // not Max, which may drop a NaN
  // Adding 1.5 * 2^23 rounds x / ln 2 to an integer k in the low bits.
  const V magic = constant(12582912.0F);
  const V shifted = hn::MulAdd(clamped, constant(1.44269504F), magic);
  const V k = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(k, constant(0.693359375F), clamped);
  r = hn::NegMulAdd(k, constant(-2.12194440e-4F), r);
  // Polynomial from Cephes' expf on [-ln 2 / 2, ln 2 / 2].
  V p = constant(1.9875691500e-4F);
  p = hn::MulAdd(p, r, constant(1.3981999507e-3F));
  p = hn::MulAdd(p, r, constant(8.3334519073e-3F));
  p = hn::MulAdd(p, r, constant(4.1665795894e-2F));
  p = hn::MulAdd(p, r, constant(1.6666665459e-1F));
  p = hn::MulAdd(p, r, constant(5.0000001201e-1F));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), constant(1.0F));
  // times 2^k: p is in [0.7, 1.42], so adding k to its exponent is exact
  const auto bits = hn::Add(hn::BitCast(du, p), hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  return hn::IfThenZeroElse(tiny, hn::BitCast(D(), bits));
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_SIMD_INL_H_
