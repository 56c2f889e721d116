// Times optimizer steps over 16.7M elements, compared with a copy, and single-token attention over a KV cache.
//
//   build/bench/optimizer_benchmark --benchmark_filter=adamw     # OMP_NUM_THREADS sets the threads
//
// GB/s counts each operand once, as read or written. fp32: everything in fp32. bf16: fp32 master weights, moments and
// gradients, bf16 weights. bf16_states: weights and moments in bf16, rounded stochastically.
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <string>

#include "partita/ops/adamw.h"
#include "partita/ops/attention.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"

namespace partita::internal {
namespace {

constexpr int64_t kElements = int64_t{1} << 24;
const StepScalars kNow{.seed = 1, .step = 2, .update = 2, .learning_rate = 1e-4F};

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) { return at::randn(shape).to(dtype); }

void measure(benchmark::State& state, double bytes, const std::function<void()>& run) {
  for (auto _ : state) run();
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

struct Precision {
  const char* name;
  at::ScalarType master, weight;
};

struct Operands {
  explicit Operands(const Precision& p)
      : master(random({kElements}, p.master)),
        m(random({kElements}, p.master)),
        v(random({kElements}, p.master).abs_()),
        gradient(random({kElements}, at::kFloat)),
        weight(p.weight == p.master ? master : master.to(p.weight)) {}

  // Of a step with so many states.
  double bytes(int states) const {
    const double all =
        static_cast<double>(gradient.nbytes()) + (2.0 + 2.0 * states) * static_cast<double>(master.nbytes());
    return weight.is_same(master) ? all : all + static_cast<double>(weight.nbytes());
  }

  at::Tensor master, m, v, gradient, weight;
};

void adamw(benchmark::State& state, const Precision& precision) {
  const Operands o(precision);
  measure(state, o.bytes(2),
          [&] { adamw_step(o.master, o.m, o.v, o.gradient, o.weight, {.weight_decay = 0.1}, &kNow); });
}

void sgd(benchmark::State& state, const Precision& precision) {
  const Operands o(precision);
  measure(state, o.bytes(1), [&] { sgd_step(o.master, o.m, o.gradient, o.weight, {.weight_decay = 0.1}, &kNow); });
}

void lamb_norms(benchmark::State& state, const Precision& precision) {
  const Operands o(precision);
  measure(state, static_cast<double>(o.gradient.nbytes() + 3 * o.master.nbytes()), [&] {
    benchmark::DoNotOptimize(lamb_measure(o.master, o.m, o.v, o.gradient, {.weight_decay = 0.1}, &kNow));
  });
}

void lamb(benchmark::State& state, const Precision& precision) {
  const Operands o(precision);
  measure(state, o.bytes(2),
          [&] { lamb_step(o.master, o.m, o.v, o.gradient, o.weight, {.weight_decay = 0.1}, 0.5, &kNow); });
}

void copy(benchmark::State& state) {
  const at::Tensor in = random({kElements}, at::kFloat), out = random({kElements}, at::kFloat);
  measure(state, 2.0 * static_cast<double>(in.nbytes()), [&] { out.copy_(in); });
}

// `past` positions of 8 kv heads of width 64, 4 query heads each.
void attention(benchmark::State& state, at::ScalarType dtype, int64_t past, int64_t queries) {
  const Heads heads{.heads = 32, .kv_heads = 8, .head_width = 64};
  const at::Tensor qkv = random({1, queries, 48 * 64}, dtype), out = random({1, queries, 32 * 64}, dtype);
  const at::Tensor keys = random({1, 8, past + queries, 64}, dtype), values = random({1, 8, past + queries, 64}, dtype);
  measure(state, static_cast<double>(keys.nbytes() + values.nbytes()),
          [&] { attention_cached(out, qkv, keys, values, past, heads); });
}

void register_all() {
  const auto add = [](const std::string& name, const std::function<void(benchmark::State&)>& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  add("copy", copy);
  for (const Precision& precision : {Precision{"fp32", at::kFloat, at::kFloat},
                                     {"bf16", at::kFloat, at::kBFloat16},
                                     {"bf16_states", at::kBFloat16, at::kBFloat16}}) {
    const std::string end = std::string("/") + precision.name;
    add("adamw" + end, [=](auto& s) { adamw(s, precision); });
    add("sgd" + end, [=](auto& s) { sgd(s, precision); });
    add("lamb_norms" + end, [=](auto& s) { lamb_norms(s, precision); });
    add("lamb" + end, [=](auto& s) { lamb(s, precision); });
  }
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t queries : {1, 16})
      add(std::string("attention_cached/") + at::toString(dtype) + "/2048+" + std::to_string(queries),
          [=](auto& s) { attention(s, dtype, 2048, queries); });
}

}  // namespace
}  // namespace partita::internal

int main(int argc, char** argv) {
  partita::internal::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
