// Stores optimizer results: fp32 unchanged, bf16 rounded stochastically (ops/rounding.h).
//
//   for_rounded<3>(problem, begin, master, n, [&](int64_t i, auto part, const auto& rounded) {  // master from `begin`
//     rounded.store(0, next, master + i, part);            // 0: the weights; 1, 2: the states
//   });
#if defined(PARTITA_OPS_CPU_STOCHASTIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_STOCHASTIC_INL_H_
#undef PARTITA_OPS_CPU_STOCHASTIC_INL_H_
#else
#define PARTITA_OPS_CPU_STOCHASTIC_INL_H_
#endif

#include <algorithm>

#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/cpu/philox-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

// Adds 16 random bits to the fp32 bits; the upper half is then v rounded up with the probability given by its lower
// half. The largest finite values may round to infinity; infinity, whose lower half is 0, is unchanged; NaN is made
// quiet, so that it cannot wrap around to 0.
HWY_INLINE hn::Vec<DU32> stochastic_bits(V v, const uint16_t* numbers) {
  const DU32 d;
  const auto bits = hn::BitCast(d, v);
  const auto rounded = hn::Add(bits, hn::PromoteTo(d, hn::LoadU(DU16(), numbers)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x00400000));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, rounded);
}

struct Exact {
  template <class Part>
  HWY_INLINE void store(int, V v, float* p, Part part) const {
    (void)HWY_NAMESPACE::store(v, p, part);
  }
};

template <int kTensors>
struct Stochastic {
  HWY_INLINE void store(int tensor, V v, at::BFloat16* p, All) const {
    store_upper(stochastic_bits(v, numbers[tensor] + at), p);
  }
  HWY_INLINE void store(int tensor, V v, at::BFloat16* p, First part) const {
    HWY_ALIGN at::BFloat16 buffer[HWY_MAX_BYTES / sizeof(float)];
    store(tensor, v, buffer, All{});
    std::memcpy(static_cast<void*>(p), buffer, static_cast<size_t>(part.count) * sizeof(at::BFloat16));
  }

  const uint16_t* numbers[kTensors];
  int64_t at = 0;
};

// Calls f(i, part, rounded) over n elements, the first of which is element `begin` of the problem.
template <int kTensors, class F>
HWY_INLINE void for_rounded(const OptimizerProblem&, int64_t, const float*, int64_t n, F&& f) {
  for_vectors(n, [&](int64_t i, auto part) { f(i, part, Exact{}); });
}
template <int kTensors, class F>
HWY_INLINE void for_rounded(const OptimizerProblem& p, int64_t begin, const at::BFloat16*, int64_t n, F&& f) {
  constexpr int64_t kChunk = 512;  // numbers fit in the L1 cache; a multiple of every vector length
  HWY_ALIGN uint16_t buffer[kTensors][kChunk + kNumberPadding];
  Stochastic<kTensors> rounded;
  for (int64_t chunk = 0; chunk < n; chunk += kChunk) {
    const int64_t count = std::min(kChunk, n - chunk);
    for (uint32_t tensor = 0; tensor < kTensors; ++tensor)
      rounded.numbers[tensor] = philox_numbers({p.key, tensor, p.step}, p.first + begin + chunk, count, buffer[tensor]);
    for_vectors(count, [&](int64_t i, auto part) {
      rounded.at = i;
      f(chunk + i, part, rounded);
    });
  }
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_STOCHASTIC_INL_H_
