// One pass over the elements of an optimizer step, for any update rule.
//
//   struct Rule {
//     static constexpr int kStates = 2;
//     struct Factors { ... };                                           // common to all elements
//     __device__ Factors factors(const StepScalars& now) const;         // once per block
//     __device__ static float next(const Factors&, float g, float master, float (&state)[kStates]);  // updates state
//   };
//   launch_step(problem, Rule{...});
//
// fp32: four elements per thread. bf16: eight, which share one block of random numbers per tensor.
#pragma once
#include <initializer_list>

#include "partita/base/random.h"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/mask.cuh"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {

struct OptimizerProblem : OptimizerOperands {
  OptimizerProblem(const at::Tensor& the_master, std::initializer_list<OptimizerState> the_states,
                   const at::Tensor& the_gradient, const at::Tensor& the_weight, const StepScalars* the_now,
                   const Rounding& the_rounding)
      : OptimizerOperands(the_master, the_states, the_gradient, the_weight, the_now, the_rounding, at::kCUDA) {}
};

template <class M, class W, class G>
struct Elements {
  M *master, *state[2];  // state null: the optimizer has no such state
  const G* gradient;
  W* weight;  // null: only the master is written
  int64_t count;
  const StepScalars* now;
  uint64_t parameter;  // for the random numbers
  int64_t first;       // index of the first element within the whole parameter
};

template <class M>
inline constexpr int kOptimizerPack = 16 / sizeof(M);

// Adds 16 random bits to the fp32 bits; the upper half is then x rounded up with the probability given by its lower
// half. NaN is made quiet, so that it cannot wrap around to 0.
__device__ __forceinline__ uint32_t stochastic_bits(float x, uint32_t number) {
  const uint32_t bits = __float_as_uint(x);
  return isnan(x) ? bits | 0x00400000U : bits + number;
}

// Stores x to tensor `tensor` (0: weights; 1, 2: states), rounded for its dtype: neighbors from `element` on.
template <bool kAligned, int n>
__device__ __forceinline__ void store_state(float* p, const float (&x)[n], int64_t count, uint32_t, int64_t,
                                            const PhiloxKey&, int64_t) {
  store<kAligned>(p, narrow<float>(x), count);
}
template <bool kAligned>
__device__ __forceinline__ void store_state(at::BFloat16* p, const float (&x)[8], int64_t count, uint32_t tensor,
                                            int64_t element, const PhiloxKey& key, int64_t step) {
  uint32_t number[8];
  numbers_of<kAligned>(
      element, [&](int64_t block) { return rounding_block(key, step, tensor, block); }, number);
  Pack<at::BFloat16, 8> pack;
#pragma unroll
  for (int w = 0; w < 4; ++w)
    pack.word[w] = stochastic_bits(x[2 * w], number[2 * w]) >> 16 |
                   (stochastic_bits(x[2 * w + 1], number[2 * w + 1]) & 0xFFFF0000U);
  store<kAligned>(p, pack, count);
}

template <class M, class W, class G, bool kAligned, class Rule>
__global__ void __launch_bounds__(kThreads) step_kernel(const Elements<M, W, G> e, const Rule rule) {
  constexpr int n = kOptimizerPack<M>;
  __shared__ typename Rule::Factors shared;
  const StepScalars now = *e.now;
  if (now.skip != 0) return;
  if (threadIdx.x == 0) shared = rule.factors(now);
  __syncthreads();
  const typename Rule::Factors factors = shared;
  const PhiloxKey key = rounding_key(now.seed, e.parameter);
  const int64_t step = int64_t{gridDim.x} * kThreads * n;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * n; i < e.count; i += step) {
    const int64_t count = e.count - i;
    float g[n], master[n], state[Rule::kStates > 0 ? Rule::kStates : 1][n];
    widen(load<kAligned, n>(e.gradient + i, count), g);
    widen(load<kAligned, n>(e.master + i, count), master);
#pragma unroll
    for (int s = 0; s < Rule::kStates; ++s) widen(load<kAligned, n>(e.state[s] + i, count), state[s]);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      float its[Rule::kStates > 0 ? Rule::kStates : 1];
#pragma unroll
      for (int s = 0; s < Rule::kStates; ++s) its[s] = state[s][j];
      master[j] = Rule::next(factors, g[j], master[j], its);
#pragma unroll
      for (int s = 0; s < Rule::kStates; ++s) state[s][j] = its[s];
    }
#pragma unroll
    for (int s = 0; s < Rule::kStates; ++s)
      store_state<kAligned>(e.state[s] + i, state[s], count, s + 1, e.first + i, key, now.step);
    store_state<kAligned>(e.master + i, master, count, 0, e.first + i, key, now.step);
    if (e.weight != nullptr) store<kAligned>(e.weight + i, narrow<W>(master), count);
  }
}

// Calls f(M{}, W{}, G{}) with the types of master, weight and gradient; W is M without a weight.
template <class F>
void with_types(const OptimizerProblem& p, F&& f) {
  with_type(p.gradient.scalar_type(), [&]<class G>(G gradient) {
    if (p.master.scalar_type() == at::kBFloat16) return f(at::BFloat16{}, at::BFloat16{}, gradient);
    if (!p.weight.defined()) return f(float{}, float{}, gradient);
    p.weight.scalar_type() == at::kHalf ? f(float{}, at::Half{}, gradient) : f(float{}, at::BFloat16{}, gradient);
  });
}

template <class M, class W, class G>
[[nodiscard]] Elements<M, W, G> elements_of(const OptimizerProblem& p) {
  return {.master = p.master.mutable_data_ptr<M>(),
          .state = {mutable_data_or_null<M>(p.states[0]), mutable_data_or_null<M>(p.states[1])},
          .gradient = p.gradient.const_data_ptr<G>(),
          .weight = mutable_data_or_null<W>(p.weight),
          .count = p.count,
          .now = p.now,
          .parameter = p.rounding.parameter,
          .first = p.rounding.first};
}

// Whether the elements form whole packs and whole blocks of random numbers.
[[nodiscard]] inline bool whole(const OptimizerProblem& p) {
  return p.count % 8 == 0 && p.rounding.first % 8 == 0 &&
         aligned(p.master, p.states[0], p.states[1], p.gradient, p.weight);
}

template <class Rule>
void launch_step(const OptimizerProblem& p, const Rule& rule) {
  if (p.count == 0) return;
  with_types(p, [&]<class M, class W, class G>(M, W, G) {
    with_bool(whole(p), [&]<class Whole>(Whole) {
      const auto kernel = step_kernel<M, W, G, Whole::value, Rule>;
      static const int64_t resident = resident_blocks(kernel, kThreads);
      const int64_t needed = divide_up(p.count, int64_t{kOptimizerPack<M>} * kThreads);
      kernel<<<static_cast<unsigned>(std::min(resident, needed)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          elements_of<M, W, G>(p), rule);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
