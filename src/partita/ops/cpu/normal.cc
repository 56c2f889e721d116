#include "partita/ops/normal.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/normal.h"
#endif
#include "partita/ops/check.h"
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/normal.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/philox-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

#define PARTITA_NORMAL_INLINE HWY_INLINE
#include "partita/ops/normal_steps-inl.h"
#undef PARTITA_NORMAL_INLINE

// a * b + c, rounded once, even where Highway would round twice.
template <class Tag, class Vector>
HWY_INLINE Vector fused(Tag d, Vector a, Vector b, Vector c) {
#if HWY_NATIVE_FMA
  static_cast<void>(d);
  return hn::MulAdd(a, b, c);
#else
  using T = hn::TFromD<Tag>;
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)], y[HWY_MAX_BYTES / sizeof(T)], z[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < hn::Lanes(d); ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, x);
#endif
}

// Vector arithmetic for normal_steps-inl.h.
struct VectorMath {
  using DReal = hn::ScalableTag<double>;
  using Real = hn::Vec<DReal>;
  using Bits = VU64;

  static HWY_INLINE Real set(double x) { return hn::Set(DReal(), x); }
  static HWY_INLINE Bits word(uint64_t x) { return hn::Set(DU64(), x); }
  static HWY_INLINE Real add(Real a, Real b) { return hn::Add(a, b); }
  static HWY_INLINE Real sub(Real a, Real b) { return hn::Sub(a, b); }
  static HWY_INLINE Real mul(Real a, Real b) { return hn::Mul(a, b); }
  static HWY_INLINE Real div(Real a, Real b) { return hn::Div(a, b); }
  static HWY_INLINE Real sqrt(Real a) { return hn::Sqrt(a); }
  static HWY_INLINE Real fma(Real a, Real b, Real c) { return fused(DReal(), a, b, c); }
  static HWY_INLINE Bits plus(Bits a, Bits b) { return hn::Add(a, b); }
  static HWY_INLINE Bits both(Bits a, Bits b) { return hn::And(a, b); }
  template <int n>
  static HWY_INLINE Bits right(Bits a) {
    return hn::ShiftRight<n>(a);
  }
  template <int n>
  static HWY_INLINE Bits left(Bits a) {
    return hn::ShiftLeft<n>(a);
  }
  static HWY_INLINE Bits bits(Real a) { return hn::BitCast(DU64(), a); }
  static HWY_INLINE Real from_bits(Bits a) { return hn::BitCast(DReal(), a); }
  // For an integer below 2^52: combined with the bits of 2^52, it becomes the mantissa.
  static HWY_INLINE Real real(Bits a) { return sub(from_bits(hn::Or(a, word(0x4330000000000000))), set(0x1p52)); }
  static HWY_INLINE Real flip(Real a, Bits sign) { return from_bits(hn::Xor(bits(a), sign)); }
  static HWY_INLINE Real odd(Bits a, Real yes, Real no) {
    return hn::IfThenElse(hn::RebindMask(DReal(), hn::Ne(both(a, word(1)), hn::Zero(DU64()))), yes, no);
  }
};

// 4 * Lanes(DU64()) standard normals: those of Lanes(DU64()) blocks starting at `block`.
HWY_INLINE void normals_of_blocks(PhiloxKey key, int64_t block, float* out) {
  const DU64 d;
  const VU64 index = hn::Add(hn::Iota(d, 0), hn::Set(d, static_cast<uint64_t>(block)));
  PhiloxLanes lanes = philox_lanes({{index, hn::ShiftRight<32>(index), hn::Zero(d), hn::Zero(d)}}, key);
  const VU64 low = hn::Set(d, 0xFFFFFFFF);
  for (VU64& word : lanes.word) word = hn::And(word, low);
  const Normals<VectorMath> a = box_muller<VectorMath>(lanes.word[0], lanes.word[1]);
  const Normals<VectorMath> b = box_muller<VectorMath>(lanes.word[2], lanes.word[3]);
  const hn::Rebind<float, VectorMath::DReal> half;
  hn::StoreInterleaved4(hn::DemoteTo(half, a.first), hn::DemoteTo(half, a.second), hn::DemoteTo(half, b.first),
                        hn::DemoteTo(half, b.second), half, out);
}

// Fills elements [begin, end) of out.
void normal_elements(const at::Tensor& out, const NormalSequence& s, int64_t begin, int64_t end) {
  constexpr int64_t kElements = 1024;                                            // per chunk: whole vectors of blocks
  HWY_ALIGN float normals[kElements + 4 * HWY_MAX_BYTES / sizeof(double)] = {};  // from the start of a block
  const auto step = static_cast<int64_t>(4 * hn::Lanes(DU64()));
  with_type_of(out, [&]<class T>(T) {
    T* to = out.mutable_data_ptr<T>();
    for (int64_t i = begin; i < end;) {
      const int64_t element = s.first + i, skipped = element % 4, count = std::min(end - i, kElements - skipped);
      for (int64_t k = 0; k < skipped + count; k += step) normals_of_blocks(s.key, (element + k) / 4, normals + k);
      for_vectors(count, [&](int64_t k, auto part) {
        const V x = fused(D(), load(normals + skipped + k, part), constant(s.std), constant(s.mean));
        store(x, to + i + k, part);
      });
      i += count;
    }
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(normal_elements);

constexpr int64_t kLeastElements = 16384;  // minimum per thread

}  // namespace

void fill_normal(at::Tensor out, const NormalSequence& sequence) {
  PARTITA_DISPATCH(out, fill_normal(out, sequence));
  check_dense(out, "out", {out.numel()}, check_activation(out, "out"), at::kCPU);
  PARTITA_CHECK(sequence.first >= 0, "first element {}, expected at least 0", sequence.first);
  at::parallel_for(0, out.numel(), kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(normal_elements)(out, sequence, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
