#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/dropout_apply.h"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/mask.cuh"

namespace partita::internal::cuda {
namespace {

// Sample blockIdx.y: its `count` elements are contiguous, so packs coincide with Philox blocks for any C.
template <class T, bool kAdd, bool kAligned>
__global__ void __launch_bounds__(kThreads) dropout_kernel(T* out, const T* in, MaskArguments a, int64_t elements) {
  const int64_t first = 8 * (int64_t{blockIdx.x} * kThreads + threadIdx.x), count = elements - first;
  if (count <= 0) return;
  const int64_t at = blockIdx.y * elements + first;
  float x[8];
  widen(load<kAligned, 8>(in + at, count), x);
  const Mask mask(a, blockIdx.y * a.length);
  if (mask.drops()) mask.apply<true>(x, first);
  if constexpr (kAdd) {
    float before[8];
    widen(load<kAligned, 8>(out + at, count), before);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] += before[i];
  }
  store<kAligned>(out + at, narrow<T>(x), count);
}

template <bool kAdd>
void drop(const at::Tensor& out, const at::Tensor& in, const Dropout& dropout) {
  const at::ScalarType dtype = check_activation(in, "in");
  const int64_t N = in.size(0), C = in.size(1);
  check_tensor(in, "in", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  const MaskArguments mask = make_mask(dropout, N);
  if (N * C == 0) return;
  const int64_t samples = mask.threshold > 0 ? N / mask.length : 1, elements = N * C / samples;
  PARTITA_CHECK(samples <= 65535, "dropout of {} samples at once: at most 65535", samples);
  const dim3 grid(blocks_for(divide_up(elements, 8)), static_cast<unsigned>(samples));
  with_type(dtype, [&]<class T>(T) {
    with_bool(elements % 8 == 0 && aligned(out, in), [&]<class Aligned>(Aligned) {
      dropout_kernel<T, kAdd, Aligned::value><<<grid, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          out.mutable_data_ptr<T>(), in.const_data_ptr<T>(), mask, elements);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void dropout_forward(at::Tensor out, at::Tensor in, const Dropout& dropout) { drop<false>(out, in, dropout); }
void dropout_add(at::Tensor out, at::Tensor in, const Dropout& dropout) { drop<true>(out, in, dropout); }

}  // namespace partita::internal::cuda
