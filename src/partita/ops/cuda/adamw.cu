#include "partita/ops/cuda/adam.cuh"
#include "partita/ops/cuda/optimizer.cuh"
#include "partita/ops/cuda/optimizer.h"

namespace partita::internal::cuda {
namespace {

struct AdamWRule {
  static constexpr int kStates = 2;
  struct Factors {
    AdamFactors adam;
    float keep;  // 1 - learning rate * weight decay
    float step;  // learning rate / (1 - beta1^t)
  };

  [[nodiscard]] __device__ Factors factors(const StepScalars& now) const {
    const AdamFactors common = adam.factors(now);
    const auto rate = static_cast<double>(now.learning_rate);
    return {.adam = common,
            .keep = static_cast<float>(1 - rate * weight_decay),
            .step = static_cast<float>(rate * common.mean_correction)};
  }
  __device__ __forceinline__ static float next(const Factors& f, float g, float master, float (&state)[2]) {
    update_moments(f.adam, g, state);
    return __fmaf_rn(-adam_quotient(f.adam, state), f.step, __fmul_rn(master, f.keep));
  }

  Adam adam;
  double weight_decay;
};

}  // namespace

void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight,
                const AdamW& adamw, const StepScalars* now, const Rounding& rounding) {
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, weight, now, rounding);
  launch_step(p, AdamWRule{{adamw.beta1, adamw.beta2, adamw.epsilon}, adamw.weight_decay});
}

}  // namespace partita::internal::cuda
