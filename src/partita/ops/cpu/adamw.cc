#include "partita/ops/adamw.h"

#include "partita/ops/cpu/adam_factors.h"
#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/optimizer.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/adamw.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/optimizer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

void adamw_elements(const OptimizerProblem& p, const AdamWFactors& factor, int64_t begin, int64_t end) {
  with_elements(p, begin, [&](const auto& e) {
    for_rounded<3>(p, begin, e.master, end - begin, [&](int64_t i, auto part, const auto& rounded) {
      const Moments now = moments(factor.adam, e, i, part);
      rounded.store(1, now.m, e.states[0] + i, part);
      rounded.store(2, now.v, e.states[1] + i, part);
      const V decayed = hn::Mul(load(e.master + i, part), constant(factor.keep));
      const V next = hn::NegMulAdd(adam_quotient(factor.adam, now), constant(factor.step), decayed);
      rounded.store(0, next, e.master + i, part);
      e.store_weight(next, i, part);
    });
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(adamw_elements);

}  // namespace

void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight,
                const AdamW& adamw, const StepScalars* now, const Rounding& rounding) {
  PARTITA_DISPATCH(master, adamw_step(master, m, v, gradient, weight, adamw, now, rounding));
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, weight, now, rounding);
  if (now->skip != 0) return;
  const AdamFactors adam(adamw.beta1, adamw.beta2, adamw.epsilon, *now);
  const auto rate = static_cast<double>(now->learning_rate);
  const AdamWFactors factor{.adam = adam,
                            .keep = static_cast<float>(1 - rate * adamw.weight_decay),
                            .step = static_cast<float>(rate * adam.mean_correction)};
  for_element_ranges(p.count, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_elements)(p, factor, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
