#include "partita/ops/cuda/cross_entropy.h"

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/gelu.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/values.cuh"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

constexpr int kRowThreads = 512;
constexpr int kInFlight = 4;  // packs in flight per thread

// Shared memory per block in bytes: enough for two rows per multiprocessor if they fit, else as much of one row as
// fits. The rest is read a second time (mostly from L2).
constexpr int64_t kHalfOfShared = 112 << 10, kAllOfShared = 224 << 10;

template <class T>
struct CrossEntropy {
  T* logits;
  const int32_t* labels;
  double* losses;  // [n]
  const StepScalars* now;
  ValueError* error;
  int64_t V;
  int64_t kept;  // packs of a row kept in shared memory
};

// Maximum of the elements so far, and sum of 2^(log2(e) (x - maximum)); elements can be added in any number and order.
struct Softmax {
  float maximum, sum;
};

template <int n>
__device__ __forceinline__ void add(Softmax& s, const float (&x)[n]) {
  float maximum = s.maximum;
#pragma unroll
  for (int i = 0; i < n; ++i) maximum = fmaxf(maximum, x[i]);
  s.sum *= exp2_fast((s.maximum - maximum) * kLog2E);
  s.maximum = maximum;
#pragma unroll
  for (int i = 0; i < n; ++i) s.sum += exp2_fast((x[i] - maximum) * kLog2E);
}

__device__ __forceinline__ float warp_maximum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, step));
  return x;
}

// One row per block. 16-byte packs start at the aligned address at or below the start of the row: the first and last
// may extend into neighboring rows, and only their own part is accessed.
template <class T, bool kGradient>
__global__ void __launch_bounds__(kRowThreads, 2) cross_entropy_kernel(const CrossEntropy<T> a) {
  constexpr int n = 16 / sizeof(T);
  extern __shared__ uint4 kept[];
  __shared__ float maxima[kWarp];
  __shared__ double sums[kWarp];
  const int64_t row = blockIdx.x;
  T* logits = a.logits + row * a.V;
  const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(logits) % 16 / sizeof(T));
  T* base = logits - before;  // pack p starts at element n p - before of the row
  const int64_t end = before + a.V, packs = (end + n - 1) / n;
  const int64_t inner = end / n;  // packs 1 (or 0) .. inner - 1 are complete

  const int32_t label = a.labels[row];
  const bool counts = label != kIgnoredLabel && check_value(label, a.V, ValueKind::label, row, 1, a.error);
  const auto whole = [&](int64_t p) { return p < inner && (p > 0 || before == 0); };
  // Stores only elements of the row.
  const auto write = [&](int64_t p, const Pack<T, n>& pack) {
    if (whole(p)) return store<true>(base + p * n, pack, n);
    float x[n];
    widen(pack, x);
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (p * n + i >= before && p * n + i < end) base[p * n + i] = static_cast<T>(x[i]);
  };
  if (!counts) {
    if (threadIdx.x == 0) a.losses[row] = 0;
    if constexpr (kGradient) {
      const Pack<T, n> zero{};
      for (int64_t p = threadIdx.x; p < packs; p += kRowThreads) write(p, zero);
    }
    return;
  }
  const float at_label = static_cast<float>(logits[label]);  // read before any overwriting

  // Elements outside the row read as -inf.
  const auto read = [&](int64_t p) {
    if (whole(p)) return load<true, n>(base + p * n, n);
    float x[n];
#pragma unroll
    for (int i = 0; i < n; ++i)
      x[i] = p * n + i >= before && p * n + i < end ? static_cast<float>(base[p * n + i]) : -INFINITY;
    return narrow<T>(x);
  };
  Softmax mine{std::numeric_limits<float>::lowest(), 0};
  for (int64_t first = threadIdx.x; first < packs; first += kInFlight * kRowThreads) {
    Pack<T, n> pack[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * kRowThreads < packs) pack[k] = read(first + k * kRowThreads);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t p = first + k * kRowThreads;
      if (p >= packs) continue;
      float x[n];
      widen(pack[k], x);
      add(mine, x);
      if (kGradient && p < a.kept)
        kept[p] = make_uint4(pack[k].word[0], pack[k].word[1], pack[k].word[2], pack[k].word[3]);
    }
  }
  const unsigned lane = threadIdx.x % kWarp;
  float maximum = warp_maximum(mine.maximum);
  if (lane == 0) maxima[threadIdx.x / kWarp] = maximum;
  __syncthreads();
  maximum = warp_maximum(lane < kRowThreads / kWarp ? maxima[lane] : mine.maximum);
  const double part = static_cast<double>(mine.sum) * exp2_fast((mine.maximum - maximum) * kLog2E);
  const double sum = block_sum(part, sums);  // its barrier also follows the read of logits[label]
  if (threadIdx.x == 0) a.losses[row] = maximum + log(sum) - at_label;
  if constexpr (kGradient) {
    const float weight = a.now->loss_weight, scale = static_cast<float>(weight / sum);
    const int64_t label_at = before + label;
    for (int64_t p = threadIdx.x; p < packs; p += kRowThreads) {
      Pack<T, n> pack;
      if (p < a.kept) {
        const uint4 v = kept[p];
        pack.word[0] = v.x, pack.word[1] = v.y, pack.word[2] = v.z, pack.word[3] = v.w;
      } else {
        pack = read(p);
      }
      float x[n];
      widen(pack, x);
#pragma unroll
      for (int i = 0; i < n; ++i) x[i] = scale * exp2_fast((x[i] - maximum) * kLog2E);
      if (p == label_at / n) {  // in double: the probability may be almost 1
        const double probability = exp(static_cast<double>(at_label) - maximum) / sum;
#pragma unroll
        for (int i = 0; i < n; ++i)
          if (i == label_at % n) x[i] = static_cast<float>(weight * (probability - 1));
      }
      write(p, narrow<T>(x));
    }
  }
}

}  // namespace

void cross_entropy(at::Tensor logits, at::Tensor labels, at::Tensor loss, const StepScalars* now, bool gradient) {
  const at::ScalarType dtype = check_activation(logits, "logits");
  const int64_t n = logits.size(0), V = logits.size(1);
  check_tensor(logits, "logits", {n, V}, dtype);
  check_tensor(labels, "labels", {n}, at::kInt);
  check_tensor(loss, "loss", {1}, at::kDouble);
  PARTITA_CHECK(now != nullptr || !gradient, "the weight of the loss is missing");
  if (n == 0) return;
  auto* losses = reinterpret_cast<double*>(workspace(n * static_cast<int64_t>(sizeof(double))));
  // A row touches at most one pack more than its bytes fill.
  const int64_t row_bytes = divide_up(V * logits.element_size(), 16) * 16 + 16;
  const int64_t shared = !gradient ? 0 : std::min(row_bytes, row_bytes <= kHalfOfShared ? kHalfOfShared : kAllOfShared);
  with_type(dtype, [&]<class T>(T) {
    const CrossEntropy<T> arguments{.logits = logits.mutable_data_ptr<T>(),
                                    .labels = labels.const_data_ptr<int32_t>(),
                                    .losses = losses,
                                    .now = now,
                                    .error = value_error(),
                                    .V = V,
                                    .kept = shared / 16};
    with_bool(gradient, [&]<class Gradient>(Gradient) {
      const auto kernel = cross_entropy_kernel<T, Gradient::value>;
      PARTITA_CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
      kernel<<<static_cast<unsigned>(n), kRowThreads, static_cast<size_t>(shared), c10::cuda::getCurrentCUDAStream()>>>(
          arguments);
    });
  });
  PARTITA_LAUNCHED();
  add_partial_sums(losses, n, 1, loss.mutable_data_ptr<double>());
}

}  // namespace partita::internal::cuda
