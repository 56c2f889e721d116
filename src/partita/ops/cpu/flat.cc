#include "partita/ops/flat.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/flat.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/flat.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

void add_elements(const at::Tensor& out, const at::Tensor& in, int64_t begin, int64_t end) {
  with_type_of(in, [&]<class T>(T) {
    float* to = out.mutable_data_ptr<float>() + begin;
    const T* from = in.const_data_ptr<T>() + begin;
    for_vectors(end - begin,
                [&](int64_t i, auto part) { store(hn::Add(load(to + i, part), load(from + i, part)), to + i, part); });
  });
}

void cast_elements(const at::Tensor& out, const at::Tensor& in, int64_t begin, int64_t end) {
  with_type_of(out, [&]<class To>(To) {
    with_type_of(in, [&]<class From>(From) {
      To* to = out.mutable_data_ptr<To>() + begin;
      const From* from = in.const_data_ptr<From>() + begin;
      for_vectors(end - begin, [&](int64_t i, auto part) { store(load(from + i, part), to + i, part); });
    });
  });
}

// Sum of squares of elements [begin, end).
double squares_of(const at::Tensor& in, int64_t begin, int64_t end) {
  double sum = 0;
  with_type_of(in, [&]<class T>(T) {
    const T* from = in.const_data_ptr<T>() + begin;
    if constexpr (std::is_same_v<T, float>) {
      sum = sum_of_squares(from, end - begin);
    } else {
      constexpr int64_t kWidened = 1024;  // stays in the L1 cache
      HWY_ALIGN float wide[kWidened];
      for (int64_t i = 0; i < end - begin; i += kWidened) {
        const int64_t count = std::min(kWidened, end - begin - i);
        for_vectors(count, [&](int64_t k, auto part) { store(load(from + i + k, part), wide + k, part); });
        sum += sum_of_squares(wide, count);
      }
    }
  });
  return sum;
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(add_elements);
HWY_EXPORT(cast_elements);
HWY_EXPORT(squares_of);

// Minimum number of elements per thread.
constexpr int64_t kLeastElements = 32768;
// Elements per partial sum of squares.
constexpr int64_t kChunk = 32768;

void check_flat(const at::Tensor& tensor, const char* name, int64_t count) {
  PARTITA_CHECK(tensor.defined(), "{} is missing", name);
  const at::ScalarType dtype = tensor.scalar_type();
  PARTITA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
                "{}: dtype {}, expected fp32, bf16 or fp16", name, at::toString(dtype));
  check_tensor(tensor, name, {count}, dtype);
}

}  // namespace

void add_into(at::Tensor out, at::Tensor in, bool accumulate) {
  PARTITA_DISPATCH(out, add_into(out, in, accumulate));
  if (!accumulate) return cast(out, in);
  const int64_t n = out.numel();
  check_tensor(out, "out", {n}, at::kFloat);
  check_flat(in, "in", n);
  at::parallel_for(0, n, kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_elements)(out, in, begin, end);
  });
}

void sum_of_squares(at::Tensor in, at::Tensor out) {
  PARTITA_DISPATCH(in, sum_of_squares(in, out));
  const int64_t n = in.numel();
  check_flat(in, "in", n);
  check_tensor(out, "out", {1}, at::kDouble);
  std::vector<double> partial(static_cast<size_t>((n + kChunk - 1) / kChunk));
  at::parallel_for(0, static_cast<int64_t>(partial.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      partial[static_cast<size_t>(c)] = HWY_DYNAMIC_DISPATCH(squares_of)(in, c * kChunk, std::min(n, (c + 1) * kChunk));
  });
  double sum = 0;
  for (double p : partial) sum += p;
  *out.mutable_data_ptr<double>() += sum;
}

void cast(at::Tensor out, at::Tensor in) {
  PARTITA_DISPATCH(out, cast(out, in));
  const int64_t n = out.numel();
  check_flat(out, "out", n);
  check_flat(in, "in", n);
  at::parallel_for(0, n, kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cast_elements)(out, in, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
