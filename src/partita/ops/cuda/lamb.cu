#include "partita/ops/cuda/adam.cuh"
#include "partita/ops/cuda/optimizer.cuh"
#include "partita/ops/cuda/optimizer.h"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

constexpr int64_t kPartialSum = 32768;  // elements per partial sum of squares

struct LambRule {
  static constexpr int kStates = 2;
  struct Factors {
    AdamFactors adam;
    float mean_correction;  // 1 / (1 - beta1^t)
    float weight_decay;
    float step;  // learning rate * ratio
  };

  [[nodiscard]] __device__ Factors factors(const StepScalars& now) const {
    const AdamFactors common = adam.factors(now);
    const bool scaled = norms != nullptr && norms[0] > 0 && norms[1] > 0;
    const double ratio = scaled ? sqrt(norms[0] / norms[1]) : 1;
    return {.adam = common,
            .mean_correction = static_cast<float>(common.mean_correction),
            .weight_decay = static_cast<float>(weight_decay),
            .step = static_cast<float>(static_cast<double>(now.learning_rate) * ratio)};
  }
  // Shared by both passes: the measured update is the applied one.
  __device__ __forceinline__ static float update(const Factors& f, float g, float master, float (&state)[2]) {
    update_moments(f.adam, g, state);
    return __fmaf_rn(adam_quotient(f.adam, state), f.mean_correction, __fmul_rn(master, f.weight_decay));
  }
  __device__ __forceinline__ static float next(const Factors& f, float g, float master, float (&state)[2]) {
    return __fmaf_rn(-update(f, g, master, state), f.step, master);
  }

  Adam adam;
  double weight_decay;
  const double* norms;  // of weights and update; null while measuring
};

// partial [blocks, 2]: squares of the weights and of the update.
template <class M, class G, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    measure_kernel(const Elements<M, M, G> e, const LambRule rule, double* partial) {
  constexpr int n = kOptimizerPack<M>;
  __shared__ LambRule::Factors shared;
  __shared__ double sums[2][kWarp];
  if (threadIdx.x == 0) shared = rule.factors(*e.now);
  __syncthreads();
  const LambRule::Factors factors = shared;
  const int64_t begin = int64_t{blockIdx.x} * kPartialSum, end = min(begin + kPartialSum, e.count);
  double weights = 0, updates = 0;
  if (e.now->skip == 0) {
    for (int64_t i = begin + threadIdx.x * n; i < end; i += kThreads * n) {
      const int64_t count = end - i;
      float g[n], master[n], m[n], v[n];
      widen(load<kAligned, n>(e.gradient + i, count), g);
      widen(load<kAligned, n>(e.master + i, count), master);
      widen(load<kAligned, n>(e.state[0] + i, count), m);
      widen(load<kAligned, n>(e.state[1] + i, count), v);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        if (!kAligned && j >= count) continue;
        float state[2] = {m[j], v[j]};
        const double update = LambRule::update(factors, g[j], master[j], state);
        weights = fma(static_cast<double>(master[j]), static_cast<double>(master[j]), weights);
        updates = fma(update, update, updates);
      }
    }
  }
  weights = block_sum(weights, sums[0]);
  updates = block_sum(updates, sums[1]);
  if (threadIdx.x > 0) return;
  partial[2 * blockIdx.x] = weights;
  partial[2 * blockIdx.x + 1] = updates;
}

void check_norms(const at::Tensor& norms) { check_tensor(norms, "norms", {2}, at::kDouble); }

}  // namespace

void lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb& lamb,
                  const StepScalars* now, at::Tensor norms) {
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, {}, now, {});
  check_norms(norms);
  if (p.count == 0) return;
  const LambRule rule{{lamb.beta1, lamb.beta2, lamb.epsilon}, lamb.weight_decay, nullptr};
  const int64_t parts = divide_up(p.count, kPartialSum);
  auto* partial = reinterpret_cast<double*>(workspace(parts * 2 * static_cast<int64_t>(sizeof(double))));
  with_types(p, [&]<class M, class W, class G>(M, W, G) {
    if constexpr (std::is_same_v<M, W>) {  // no separate weight is written
      with_bool(whole(p), [&]<class Whole>(Whole) {
        measure_kernel<M, G, Whole::value>
            <<<static_cast<unsigned>(parts), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(elements_of<M, M, G>(p),
                                                                                               rule, partial);
      });
    }
  });
  PARTITA_LAUNCHED();
  add_partial_sums(partial, parts, 2, norms.mutable_data_ptr<double>());
}

void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb& lamb,
               at::Tensor norms, const StepScalars* now, const Rounding& rounding) {
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, weight, now, rounding);
  check_norms(norms);
  launch_step(p, LambRule{{lamb.beta1, lamb.beta2, lamb.epsilon}, lamb.weight_decay, norms.const_data_ptr<double>()});
}

}  // namespace partita::internal::cuda
