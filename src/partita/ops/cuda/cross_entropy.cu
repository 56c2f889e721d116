#include "partita/ops/cuda/cross_entropy.h"

#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/softmax.cuh"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/values.cuh"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

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

// One row per block.
template <class T, bool kGradient>
__global__ void __launch_bounds__(kRowThreads, 2) cross_entropy_kernel(const CrossEntropy<T> a) {
  constexpr int n = RowPacks<T>::n;
  extern __shared__ uint4 kept[];
  const int64_t row = blockIdx.x;
  T* logits = a.logits + row * a.V;
  const RowPacks<T> packs(logits, a.V);

  const int32_t label = a.labels[row];
  const bool counts = label != kIgnoredLabel && check_value(label, a.V, ValueKind::label, row, 1, a.error);
  if (!counts) {
    if (threadIdx.x == 0) a.losses[row] = 0;
    if constexpr (kGradient) packs.clear();
    return;
  }
  const float at_label = static_cast<float>(logits[label]);  // read before any overwriting

  const Softmax mine = softmax_of_thread(packs, [&](int64_t p, const Pack<T, n>& pack) {
    if (kGradient && p < a.kept) kept[p] = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
  });
  const auto [maximum, sum] = softmax_of_block(mine);  // its barriers also follow the read of logits[label]
  if (threadIdx.x == 0) a.losses[row] = maximum + log(sum) - at_label;
  if constexpr (kGradient) {
    const float weight = a.now->loss_weight, scale = static_cast<float>(weight / sum);
    const int64_t label_at = packs.before + label;
    for (int64_t p = threadIdx.x; p < packs.packs; p += kRowThreads) {
      Pack<T, n> pack;
      if (p < a.kept) {
        const uint4 v = kept[p];
        pack.word[0] = v.x, pack.word[1] = v.y, pack.word[2] = v.z, pack.word[3] = v.w;
      } else {
        pack = packs.read(p);
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
      packs.write(p, narrow<T>(x));
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
