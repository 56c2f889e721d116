#include "partita/ops/dropout.h"

#include <ATen/Parallel.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/row_mask.h"
#include "partita/ops/cpu/scratch.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/dropout_apply.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/dropout.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/row_mask-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

struct DropoutMultipliers;

// out = (out +) multiplier * in; null multiplier: 1.
template <class T>
HWY_INLINE void drop_row(T* out, const T* in, const float* multiplier, bool add, int64_t C) {
  for_vectors(C, [&](int64_t i, auto part) {
    V x = load(in + i, part);
    if (multiplier != nullptr) x = hn::Mul(x, load(multiplier + i, part));
    if (add) x = hn::Add(load(out + i, part), x);
    store(x, out + i, part);
  });
}

void drop_rows(const at::Tensor& out, const at::Tensor& in, const RowMask& mask, bool add, int64_t begin, int64_t end) {
  const int64_t C = in.size(1);
  float* buffer = mask.drops() ? scratch<float, DropoutMultipliers>(C + kMaskPadding) : nullptr;
  with_type_of(in, [&]<class T>(T) {
    T* to = out.mutable_data_ptr<T>();
    const T* from = in.const_data_ptr<T>();
    for (int64_t row = begin; row < end; ++row) {
      const float* multiplier = mask.drops() ? row_multipliers(mask, row, C, buffer) : nullptr;
      drop_row(to + row * C, from + row * C, multiplier, add, C);
    }
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(drop_rows);

constexpr int64_t kLeastRows = 16;  // minimum per thread

void drop(const at::Tensor& out, const at::Tensor& in, const Dropout& dropout, bool add) {
  const at::ScalarType dtype = check_activation(in, "in");
  const int64_t N = in.size(0), C = in.size(1);
  check_tensor(in, "in", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_mask_columns(dropout, C);
  const RowMask mask(dropout, N);
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(drop_rows)(out, in, mask, add, begin, end);
  });
}

}  // namespace

void dropout_forward(at::Tensor out, at::Tensor in, const Dropout& dropout) {
  PARTITA_DISPATCH(in, dropout_forward(out, in, dropout));
  drop(out, in, dropout, false);
}

void dropout_add(at::Tensor out, at::Tensor in, const Dropout& dropout) {
  PARTITA_DISPATCH(in, dropout_add(out, in, dropout));
  drop(out, in, dropout, true);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
