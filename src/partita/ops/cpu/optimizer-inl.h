// Shared code of the optimizer kernels: C++ types of the operands, and Adam's moments.
#if defined(PARTITA_OPS_CPU_OPTIMIZER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_OPTIMIZER_INL_H_
#undef PARTITA_OPS_CPU_OPTIMIZER_INL_H_
#else
#define PARTITA_OPS_CPU_OPTIMIZER_INL_H_
#endif

#include <hwy/cache_control.h>

#include "partita/ops/cpu/adam_factors.h"
#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/optimizer_problem.h"
#include "partita/ops/cpu/simd-inl.h"
#include "partita/ops/cpu/stochastic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

template <class T, class W, class G>
struct Elements {
  T* master;
  T* states[2];  // null: the optimizer has no such state
  const G* gradient;
  W* weight;      // null: only the master is written
  bool streamed;  // the weight, past the caches

  template <class Part>
  HWY_INLINE void store_weight(V v, int64_t i, Part part) const {
    if (weight == nullptr) return;
    streamed ? stream(v, weight + i, part) : static_cast<void>(store(v, weight + i, part));
  }
};

// Calls f(Elements) with operands starting at element `begin`.
template <class F>
HWY_INLINE void with_elements(const OptimizerProblem& p, int64_t begin, F&& f) {
  const auto run = [&]<class T, class W, class G>(T, W*, G) {
    const auto from = [&]<class E>(const at::Tensor& tensor, E*) {
      return tensor.defined() ? tensor.mutable_data_ptr<E>() + begin : nullptr;
    };
    T* const type = nullptr;
    W* const weight = from(p.weight, static_cast<W*>(nullptr));
    const bool aligned = reinterpret_cast<uintptr_t>(weight) % HWY_MAX_BYTES == 0;
    const bool streamed = weight != nullptr && aligned && p.count >= kLeastStreamedElements;
    f(Elements<T, W, G>{from(p.master, type),
                        {from(p.states[0], type), from(p.states[1], type)},
                        p.gradient.const_data_ptr<G>() + begin,
                        weight,
                        streamed});
    if (streamed) hwy::FlushStream();
  };
  with_type_of(p.gradient, [&]<class G>(G gradient) {
    if (p.master.scalar_type() == at::kBFloat16)
      return run(at::BFloat16{}, static_cast<at::BFloat16*>(nullptr), gradient);
    if (!p.weight.defined()) return run(float{}, static_cast<float*>(nullptr), gradient);
    p.weight.scalar_type() == at::kHalf ? run(float{}, static_cast<at::Half*>(nullptr), gradient)
                                        : run(float{}, static_cast<at::BFloat16*>(nullptr), gradient);
  });
}

struct Moments {
  V m, v;
};

// The moments of element i, updated with its gradient.
template <class E, class Part>
HWY_INLINE Moments moments(const AdamFactors& factor, const E& e, int64_t i, Part part) {
  const V g = hn::Mul(load(e.gradient + i, part), constant(factor.gradient));
  // m + (1 - beta1) (g - m): one rounding less than beta1 m + (1 - beta1) g
  const V m = load(e.states[0] + i, part), v = load(e.states[1] + i, part);
  return {hn::MulAdd(hn::Sub(g, m), constant(factor.one_minus_beta1), m),
          hn::MulAdd(hn::Sub(hn::Mul(g, g), v), constant(factor.one_minus_beta2), v)};
}

// m / (sqrt(v / (1 - beta2^t)) + epsilon): Adam's update without the bias correction of m.
HWY_INLINE V adam_quotient(const AdamFactors& factor, const Moments& now) {
  return hn::Div(now.m, hn::MulAdd(hn::Sqrt(now.v), constant(factor.root_correction), constant(factor.epsilon)));
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_OPTIMIZER_INL_H_
