#include "partita/ops/adamw.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "partita/ops/cpu/adamw_factors.h"
#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/adamw.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::HWY_NAMESPACE {
namespace {

// weight is null where it is the master itself.
template <class T>
void update(const AdamWFactors& factor, float* master, float* m, float* v, const float* gradient, T* weight,
            int64_t n) {
  for_vectors(n, [&](int64_t i, auto part) {
    const V g = hn::Mul(load(gradient + i, part), constant(factor.gradient));
    // m + (1 - beta1) (g - m): one rounding less than beta1 m + (1 - beta1) g
    const V old_m = load(m + i, part), old_v = load(v + i, part);
    const V new_m = store(hn::MulAdd(hn::Sub(g, old_m), constant(factor.one_minus_beta1), old_m), m + i, part);
    const V g_squared = hn::Mul(g, g);
    const V new_v = store(hn::MulAdd(hn::Sub(g_squared, old_v), constant(factor.one_minus_beta2), old_v), v + i, part);
    const V denominator = hn::MulAdd(hn::Sqrt(new_v), constant(factor.root_correction), constant(factor.epsilon));
    const V decayed = hn::Mul(load(master + i, part), constant(factor.keep));
    const V next = hn::NegMulAdd(hn::Div(new_m, denominator), constant(factor.step), decayed);
    store(next, master + i, part);
    if (weight != nullptr) store(next, weight + i, part);
  });
}

void adamw_elements(const AdamWFactors& factor, float* master, float* m, float* v, const float* gradient,
                    const at::Tensor& weight, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T* out) {
    update(factor, master + begin, m + begin, v + begin, gradient + begin, out == nullptr ? out : out + begin,
           end - begin);
  };
  if (!weight.defined()) return run(static_cast<float*>(nullptr));
  weight.scalar_type() == at::kHalf ? run(weight.mutable_data_ptr<at::Half>())
                                    : run(weight.mutable_data_ptr<at::BFloat16>());
}

}  // namespace
}  // namespace partita::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita {
namespace {

HWY_EXPORT(adamw_elements);

// A thread is not woken for fewer elements.
constexpr int64_t kLeastElements = 16384;

// Corrections in double from t alone, so that a resumed run and any layout have the same.
AdamWFactors factors(const AdamW& adamw, const StepScalars& now) {
  const auto t = static_cast<double>(now.step + 1);
  const double rate = static_cast<double>(now.learning_rate);
  return {.gradient = now.gradient_scale,
          .one_minus_beta1 = static_cast<float>(1 - static_cast<double>(adamw.beta1)),
          .one_minus_beta2 = static_cast<float>(1 - static_cast<double>(adamw.beta2)),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(adamw.beta2), t))),
          .epsilon = adamw.epsilon,
          .keep = static_cast<float>(1 - rate * adamw.weight_decay),
          .step = static_cast<float>(rate / (1 - std::pow(static_cast<double>(adamw.beta1), t)))};
}

}  // namespace

void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight,
                const AdamW& adamw, const StepScalars* now) {
  const int64_t n = master.numel();
  check_tensor(master, "master", {n}, at::kFloat);
  check_tensor(m, "m", {n}, at::kFloat);
  check_tensor(v, "v", {n}, at::kFloat);
  check_tensor(gradient, "gradient", {n}, at::kFloat);
  if (weight.defined() && weight.const_data_ptr() == master.const_data_ptr()) weight.reset();
  if (weight.defined()) {
    PARTITA_CHECK(weight.scalar_type() == at::kBFloat16 || weight.scalar_type() == at::kHalf,
                  "weight: dtype {}, expected bf16, fp16 or the master itself", at::toString(weight.scalar_type()));
    check_tensor(weight, "weight", {n}, weight.scalar_type());
  }
  if (now->skip != 0) return;
  const AdamWFactors factor = factors(adamw, *now);
  float *master_data = master.mutable_data_ptr<float>(), *m_data = m.mutable_data_ptr<float>(),
        *v_data = v.mutable_data_ptr<float>();
  const float* gradient_data = gradient.const_data_ptr<float>();
  at::parallel_for(0, n, kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_elements)(factor, master_data, m_data, v_data, gradient_data, weight, begin, end);
  });
}

}  // namespace partita
#endif  // HWY_ONCE
