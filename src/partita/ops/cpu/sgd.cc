#include "partita/ops/sgd.h"

#include "partita/base/error.h"
#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/cpu/sgd_factors.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/optimizer.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/sgd.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/optimizer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

void sgd_elements(const OptimizerProblem& p, const SgdFactors& factor, int64_t begin, int64_t end) {
  with_elements(p, begin, [&](const auto& e) {
    for_rounded<2>(p, begin, e.master, end - begin, [&](int64_t i, auto part, const auto& rounded) {
      const V master = load(e.master + i, part);
      const V scaled = hn::Mul(load(e.gradient + i, part), constant(factor.gradient));
      V direction = hn::MulAdd(master, constant(factor.weight_decay), scaled);
      if (e.states[0] != nullptr) {
        direction = hn::MulAdd(load(e.states[0] + i, part), constant(factor.momentum), direction);
        rounded.store(1, direction, e.states[0] + i, part);
      }
      const V next = hn::NegMulAdd(direction, constant(factor.rate), master);
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

HWY_EXPORT(sgd_elements);

}  // namespace

void sgd_step(at::Tensor master, at::Tensor momentum, at::Tensor gradient, at::Tensor weight, const Sgd& sgd,
              const StepScalars* now, const Rounding& rounding) {
  PARTITA_DISPATCH(master, sgd_step(master, momentum, gradient, weight, sgd, now, rounding));
  PARTITA_CHECK(momentum.defined() == (sgd.momentum != 0), "momentum {} with{} a state", sgd.momentum,
                momentum.defined() ? "" : "out");
  const OptimizerProblem p = momentum.defined()
                                 ? OptimizerProblem(master, {{"momentum", momentum}}, gradient, weight, now, rounding)
                                 : OptimizerProblem(master, {}, gradient, weight, now, rounding);
  if (now->skip != 0) return;
  const SgdFactors factor{.gradient = now->gradient_scale,
                          .weight_decay = static_cast<float>(sgd.weight_decay),
                          .momentum = static_cast<float>(sgd.momentum),
                          .rate = now->learning_rate};
  for_element_ranges(p.count, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sgd_elements)(p, factor, begin, end);
  });
}

}  // namespace partita::internal
#endif  // HWY_ONCE
