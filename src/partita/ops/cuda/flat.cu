#include "partita/ops/cuda/flat.h"

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

constexpr int kPack = 4;                // elements: 16 bytes of fp32, 8 of half precision
constexpr int kPacks = 4;               // in flight per thread, a block's width apart
constexpr int64_t kPartialSum = 65536;  // elements per partial sum of squares

template <class To, class From, bool kAdd, bool kAligned>
__global__ void __launch_bounds__(kThreads) cast_kernel(To* out, const From* in, int64_t n) {
  const int64_t first = (int64_t{blockIdx.x} * kPacks * kThreads + threadIdx.x) * kPack;
  Pack<From, kPack> from[kPacks];
  Pack<To, kPack> to[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t i = first + int64_t{k} * kThreads * kPack;
    if (i + kPack <= n) {
      from[k] = load<kAligned, kPack>(in + i, kPack);
      if constexpr (kAdd) to[k] = load<kAligned, kPack>(out + i, kPack);
    } else if (i < n) {
      from[k] = load<false, kPack>(in + i, n - i);
      if constexpr (kAdd) to[k] = load<false, kPack>(out + i, n - i);
    }
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t i = first + int64_t{k} * kThreads * kPack;
    if (i >= n) break;
    float x[kPack];
    widen(from[k], x);
    if constexpr (kAdd) {
      float sum[kPack];
      widen(to[k], sum);
#pragma unroll
      for (int j = 0; j < kPack; ++j) x[j] += sum[j];
    }
    if (i + kPack <= n)
      store<kAligned>(out + i, narrow<To>(x), kPack);
    else
      store<false>(out + i, narrow<To>(x), n - i);
  }
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) squares_kernel(const T* in, int64_t n, double* partial) {
  __shared__ double shared[kWarp];
  const int64_t begin = int64_t{blockIdx.x} * kPartialSum;
  const int64_t count = min(kPartialSum, n - begin);
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * kPack; i < count; i += kThreads * kPack) {
    float x[kPack];
    if (i + kPack <= count)
      widen(load<kAligned, kPack>(in + begin + i, kPack), x);
    else
      widen(load<false, kPack>(in + begin + i, count - i), x);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum = fma(static_cast<double>(x[j]), static_cast<double>(x[j]), sum);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

void check_flat(const at::Tensor& tensor, const char* name, int64_t count) {
  check_tensor(tensor, name, {count}, check_activation(tensor, name));
}

template <bool kAdd, class To, class From>
void convert(const at::Tensor& out, const at::Tensor& in) {
  const int64_t n = out.numel();
  const unsigned blocks = static_cast<unsigned>(divide_up(n, int64_t{kPack} * kPacks * kThreads));
  with_bool(aligned(out, in), [&]<class Aligned>(Aligned) {
    cast_kernel<To, From, kAdd, Aligned::value><<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        out.mutable_data_ptr<To>(), in.const_data_ptr<From>(), n);
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void add_into(at::Tensor out, at::Tensor in, bool accumulate) {
  if (!accumulate) return cast(out, in);
  check_tensor(out, "out", {out.numel()}, at::kFloat);
  check_flat(in, "in", out.numel());
  if (out.numel() == 0) return;
  with_type(in.scalar_type(), [&]<class From>(From) { convert<true, float, From>(out, in); });
}

void sum_of_squares(at::Tensor in, at::Tensor out) {
  const int64_t n = in.numel();
  check_flat(in, "in", n);
  check_tensor(out, "out", {1}, at::kDouble);
  if (n == 0) return;
  const int64_t parts = divide_up(n, kPartialSum);
  auto* partial = reinterpret_cast<double*>(workspace(parts * static_cast<int64_t>(sizeof(double))));
  with_type(in.scalar_type(), [&]<class T>(T) {
    with_bool(aligned(in), [&]<class Aligned>(Aligned) {
      squares_kernel<T, Aligned::value>
          <<<static_cast<unsigned>(parts), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(in.const_data_ptr<T>(), n,
                                                                                             partial);
    });
  });
  PARTITA_LAUNCHED();
  add_partial_sums(partial, parts, 1, out.mutable_data_ptr<double>());
}

void cast(at::Tensor out, at::Tensor in) {
  check_flat(out, "out", out.numel());
  check_flat(in, "in", out.numel());
  if (out.numel() == 0) return;
  with_type(out.scalar_type(), [&]<class To>(To) {
    with_type(in.scalar_type(), [&]<class From>(From) { convert<false, To, From>(out, in); });
  });
}

}  // namespace partita::internal::cuda
