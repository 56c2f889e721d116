// Sums of squares of fp32 in fp64.
#if defined(PARTITA_OPS_CPU_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_SQUARES_INL_H_
#undef PARTITA_OPS_CPU_SQUARES_INL_H_
#else
#define PARTITA_OPS_CPU_SQUARES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Squares of fp32 values are exact in fp64 and do not overflow.
HWY_INLINE double sum_of_squares(const float* in, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    const auto x0 = hn::PromoteTo(d, hn::LoadU(half, in + i));
    const auto x1 = hn::PromoteTo(d, hn::LoadU(half, in + i + step));
    const auto x2 = hn::PromoteTo(d, hn::LoadU(half, in + i + 2 * step));
    const auto x3 = hn::PromoteTo(d, hn::LoadU(half, in + i + 3 * step));
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < n; ++i) sum += static_cast<double>(in[i]) * in[i];
  return sum;
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_SQUARES_INL_H_
