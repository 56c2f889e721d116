#include "partita/ops/lamb.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "partita/ops/cpu/adam_factors.h"
#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/optimizer.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/lamb.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/optimizer-inl.h"
#include "partita/ops/cpu/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Shared by both passes: the measured update is the applied one.
HWY_INLINE V update_of(const LambFactors& factor, const Moments& now, V master) {
  return hn::MulAdd(adam_quotient(factor.adam, now), constant(factor.mean_correction),
                    hn::Mul(master, constant(factor.weight_decay)));
}

SquaredNorms squared_norms(const OptimizerProblem& p, const LambFactors& factor, int64_t begin, int64_t end) {
  constexpr int64_t kChunk = 1024;  // both buffers stay in the L1 cache
  HWY_ALIGN float weights[kChunk], updates[kChunk];
  SquaredNorms sum;
  with_elements(p, begin, [&](const auto& e) {
    for (int64_t chunk = 0; chunk < end - begin; chunk += kChunk) {
      const int64_t count = std::min(kChunk, end - begin - chunk);
      for_vectors(count, [&](int64_t i, auto part) {
        const V master = load(e.master + chunk + i, part);
        store(master, weights + i, part);
        store(update_of(factor, moments(factor.adam, e, chunk + i, part), master), updates + i, part);
      });
      sum.weight += sum_of_squares(weights, count);
      sum.update += sum_of_squares(updates, count);
    }
  });
  return sum;
}

void lamb_elements(const OptimizerProblem& p, const LambFactors& factor, int64_t begin, int64_t end) {
  with_elements(p, begin, [&](const auto& e) {
    for_rounded<3>(p, begin, e.master, end - begin, [&](int64_t i, auto part, const auto& rounded) {
      const Moments now = moments(factor.adam, e, i, part);
      rounded.store(1, now.m, e.states[0] + i, part);
      rounded.store(2, now.v, e.states[1] + i, part);
      const V master = load(e.master + i, part);
      const V next = hn::NegMulAdd(update_of(factor, now, master), constant(factor.step), master);
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

HWY_EXPORT(squared_norms);
HWY_EXPORT(lamb_elements);

// Elements per partial sum.
constexpr int64_t kPartialSum = 32768;

LambFactors factors(const Lamb& lamb, double ratio, const StepScalars& now) {
  const AdamFactors adam(lamb.beta1, lamb.beta2, lamb.epsilon, now);
  return {.adam = adam,
          .mean_correction = static_cast<float>(adam.mean_correction),
          .weight_decay = static_cast<float>(lamb.weight_decay),
          .step = static_cast<float>(static_cast<double>(now.learning_rate) * ratio)};
}

}  // namespace

SquaredNorms lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb& lamb,
                          const StepScalars* now) {
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, {}, now, {});
  if (now->skip != 0) return {};
  const LambFactors factor = factors(lamb, 1, *now);
  std::vector<SquaredNorms> partial(static_cast<size_t>((p.count + kPartialSum - 1) / kPartialSum));
  at::parallel_for(0, static_cast<int64_t>(partial.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      partial[static_cast<size_t>(c)] =
          HWY_DYNAMIC_DISPATCH(squared_norms)(p, factor, c * kPartialSum, std::min(p.count, (c + 1) * kPartialSum));
  });
  SquaredNorms sum;
  for (const SquaredNorms& s : partial) sum.weight += s.weight, sum.update += s.update;
  return sum;
}

double lamb_ratio(const SquaredNorms& norms) {
  return norms.weight > 0 && norms.update > 0 ? std::sqrt(norms.weight / norms.update) : 1;
}

void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb& lamb,
               double ratio, const StepScalars* now, const Rounding& rounding) {
  const OptimizerProblem p(master, {{"m", m}, {"v", v}}, gradient, weight, now, rounding);
  if (now->skip != 0) return;
  const LambFactors factor = factors(lamb, ratio, *now);
  for_element_ranges(p.count, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(lamb_elements)(p, factor, begin, end);
  });
}

void lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb& lamb,
                  const StepScalars* now, at::Tensor norms) {
  PARTITA_DISPATCH(master, lamb_measure(master, m, v, gradient, lamb, now, norms));
  check_tensor(norms, "norms", {2}, at::kDouble);
  const SquaredNorms here = lamb_measure(master, m, v, gradient, lamb, now);
  auto* sums = norms.mutable_data_ptr<double>();
  sums[0] += here.weight;
  sums[1] += here.update;
}

void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb& lamb,
               at::Tensor norms, const StepScalars* now, const Rounding& rounding) {
  PARTITA_DISPATCH(master, lamb_step(master, m, v, gradient, weight, lamb, norms, now, rounding));
  check_tensor(norms, "norms", {2}, at::kDouble);
  const auto* sums = norms.const_data_ptr<double>();
  lamb_step(master, m, v, gradient, weight, lamb, lamb_ratio({sums[0], sums[1]}), now, rounding);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
