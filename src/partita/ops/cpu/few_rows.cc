#include "partita/ops/cpu/few_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/few_rows.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"

#ifndef PARTITA_OPS_CPU_FEW_ROWS_H_
#define PARTITA_OPS_CPU_FEW_ROWS_H_
namespace partita::internal {

struct FewRows {
  at::Tensor y, x, w;
  const float* wide_x;  // [N, in]
  bool accumulate;
  float scale;
};

}  // namespace partita::internal
#endif  // PARTITA_OPS_CPU_FEW_ROWS_H_

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Four accumulators keep the FMA units busy while the weights are streamed.
template <class T>
HWY_INLINE float dot(const float* x, const T* w, int64_t in) {
  V sum[4] = {hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
  const int64_t step = lanes();
  int64_t i = 0;
  for (; i + 4 * step <= in; i += 4 * step)
    for (int64_t j = 0; j < 4; ++j)
      sum[j] = hn::MulAdd(load(x + i + j * step, All{}), load(w + i + j * step, All{}), sum[j]);
  for (; i + step <= in; i += step) sum[0] = hn::MulAdd(load(x + i, All{}), load(w + i, All{}), sum[0]);
  if (i < in) sum[1] = hn::MulAdd(load(x + i, First{in - i}), load(w + i, First{in - i}), sum[1]);
  return sum_of_lanes(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

void few_rows_columns(const FewRows& p, int64_t begin, int64_t end) {
  const int64_t N = p.x.size(0), in = p.x.size(1), stride = p.y.stride(0);
  with_type_of(p.w, [&]<class T>(T) {
    T* y = p.y.mutable_data_ptr<T>();
    const T* w = p.w.const_data_ptr<T>();
    for (int64_t out = begin; out < end; ++out)
      for (int64_t r = 0; r < N; ++r) {
        const float product = p.scale * dot(p.wide_x + r * in, w + out * in, in);
        T& to = y[r * stride + out];
        to = T(p.accumulate ? static_cast<float>(to) + product : product);
      }
  });
}

void few_rows_widen(const at::Tensor& x, float* to) {
  with_type_of(x, [&]<class T>(T) {
    const T* from = x.const_data_ptr<T>();
    for_vectors(x.numel(), [&](int64_t i, auto part) { store(load(from + i, part), to + i, part); });
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(few_rows_columns);
HWY_EXPORT(few_rows_widen);

// Minimum number of products per thread.
constexpr int64_t kLeastProducts = 65536;
struct WideRows;

}  // namespace

void linear_few_rows(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate, float scale) {
  float* wide = scratch<float, WideRows>(x.numel());
  HWY_DYNAMIC_DISPATCH(few_rows_widen)(x, wide);
  const FewRows p{.y = y, .x = x, .w = w, .wide_x = wide, .accumulate = accumulate, .scale = scale};
  const int64_t columns_a_thread = kLeastProducts / std::max<int64_t>(1, x.numel()) + 2;
  at::parallel_for(0, w.size(0), columns_a_thread, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(few_rows_columns)(p, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
