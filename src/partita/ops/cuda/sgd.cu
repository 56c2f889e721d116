#include "partita/ops/cuda/optimizer.cuh"
#include "partita/ops/cuda/optimizer.h"

namespace partita::internal::cuda {
namespace {

template <int kMomenta>
struct SgdRule {
  static constexpr int kStates = kMomenta;
  struct Factors {
    float gradient;  // clip factor
    float weight_decay, momentum;
    float rate;
  };

  [[nodiscard]] __device__ Factors factors(const StepScalars& now) const {
    return {
        .gradient = now.gradient_scale, .weight_decay = weight_decay, .momentum = momentum, .rate = now.learning_rate};
  }
  __device__ __forceinline__ static float next(const Factors& f, float g, float master, float (&state)[1]) {
    float direction = __fmaf_rn(master, f.weight_decay, __fmul_rn(g, f.gradient));
    if constexpr (kMomenta > 0) direction = state[0] = __fmaf_rn(state[0], f.momentum, direction);
    return __fmaf_rn(-direction, f.rate, master);
  }

  float weight_decay, momentum;
};

}  // namespace

void sgd_step(at::Tensor master, at::Tensor momentum, at::Tensor gradient, at::Tensor weight, const Sgd& sgd,
              const StepScalars* now, const Rounding& rounding) {
  PARTITA_CHECK(momentum.defined() == (sgd.momentum != 0), "momentum {} with{} a state", sgd.momentum,
                momentum.defined() ? "" : "out");
  const auto weight_decay = static_cast<float>(sgd.weight_decay), share = static_cast<float>(sgd.momentum);
  if (!momentum.defined())
    return launch_step(OptimizerProblem(master, {}, gradient, weight, now, rounding), SgdRule<0>{weight_decay, share});
  launch_step(OptimizerProblem(master, {{"momentum", momentum}}, gradient, weight, now, rounding),
              SgdRule<1>{weight_decay, share});
}

}  // namespace partita::internal::cuda
