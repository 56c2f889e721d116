// Times each CPU kernel at the shapes of a 12.3M GPT-2 (6 layers of width 384, 6 heads, 8 x 256 tokens, vocabulary
// 4096) or of a Llama of that size, and for comparison a plain copy and a plain matmul.
//
//   build/bench/ops_benchmark --benchmark_filter=bf16            # OMP_NUM_THREADS sets the threads
//
// GB/s counts each operand once, as read or written; GFLOP/s of attention counts only the half under the causal mask.
// step_ms: total time of the kernel's calls in one training step.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>

#include "partita/ops/activation.h"
#include "partita/ops/adamw.h"
#include "partita/ops/attention.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/embedding.h"
#include "partita/ops/flat.h"
#include "partita/ops/matmul.h"
#include "partita/ops/norm.h"
#include "partita/ops/normal.h"
#include "partita/ops/rope.h"

namespace partita::internal {
namespace {

constexpr int64_t kLayers = 6, kHeads = 6, kWidth = 384, kLength = 256, kBatch = 8, kVocabulary = 4096;
constexpr int64_t kTokens = kBatch * kLength, kInner = 4 * kWidth, kGatedInner = 1024;
constexpr int64_t kParameters = kLayers * 12 * kWidth * kWidth + (kVocabulary + kLength) * kWidth;

const StepScalars kNow{.seed = 1, .step = 2, .learning_rate = 1e-4F};
const at::Tensor kSamples = at::arange(8, at::kLong);

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) { return at::randn(shape).to(dtype); }
at::Tensor integers(at::IntArrayRef shape, int32_t limit) {
  at::Tensor out = at::empty(shape, at::TensorOptions(at::kInt));
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<int32_t>()[i] = static_cast<int32_t>(i * 7919) % limit;
  return out;
}

struct Work {
  double bytes = 0, flops = 0;  // of one call
  double calls = 1;             // in one training step
};

void measure(benchmark::State& state, const Work& work, const std::function<void()>& run) {
  run();
  const auto begin = std::chrono::steady_clock::now();
  for (auto _ : state) run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double once = seconds.count() / static_cast<double>(state.iterations());
  if (work.bytes > 0) state.counters["GB/s"] = work.bytes / once / 1e9;
  if (work.flops > 0) state.counters["GFLOP/s"] = work.flops / once / 1e9;
  state.counters["step_ms"] = 1e3 * once * work.calls;
}

void copy(benchmark::State& state) {
  const at::Tensor in = random({32 << 20}, at::kFloat), out = random({32 << 20}, at::kFloat);
  measure(state, {.bytes = 2.0 * static_cast<double>(in.nbytes())}, [&] {
    at::parallel_for(0, in.numel(), 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(out.mutable_data_ptr<float>() + begin, in.const_data_ptr<float>() + begin,
                  static_cast<size_t>(end - begin) * sizeof(float));
    });
  });
}
BENCHMARK(copy)->UseRealTime()->Unit(benchmark::kMillisecond);

// Numbers of one model's initial weights: bytes are those written.
void initial_weights(benchmark::State& state) {
  const at::Tensor out = random({kParameters}, at::kFloat);
  measure(state, {.bytes = static_cast<double>(out.nbytes()), .calls = 0}, [&] { fill_normal(out, {.std = 0.02F}); });
}
BENCHMARK(initial_weights)->UseRealTime()->Unit(benchmark::kMillisecond);

void linear(benchmark::State& state, at::ScalarType dtype, int64_t in, int64_t out, double calls) {
  const at::Tensor x = random({kTokens, in}, dtype), w = random({out, in}, dtype), d_y = random({kTokens, out}, dtype);
  const at::Tensor y = random({kTokens, out}, dtype), d_x = random({kTokens, in}, dtype),
                   d_w = random({out, in}, at::kFloat);
  measure(state, {.flops = 6.0 * static_cast<double>(kTokens * in * out), .calls = calls}, [&] {
    linear_forward(y, x, w);
    linear_backward_input(d_x, d_y, w);
    linear_backward_weight(d_w, d_y, x, false);
  });
}

// rms: Llama's, without biases.
void norm(benchmark::State& state, at::ScalarType dtype, bool backward, float p, bool rms) {
  const auto shape = {kTokens, kWidth};
  const Dropout dropout{.p = p, .site = 1, .now = &kNow, .samples = kSamples};
  AddNorm op{.sum = random(shape, dtype),
             .branch = random(shape, dtype),
             .bias = random({kWidth}, dtype),
             .dropout = dropout,
             .weight = random({kWidth}, dtype),
             .norm_bias = random({kWidth}, dtype),
             .residual = random(shape, dtype),
             .normed = random(shape, dtype),
             .mean = random({kTokens}, at::kFloat),
             .rstd = random({kTokens}, at::kFloat)};
  if (rms) op.bias = op.norm_bias = op.mean = at::Tensor();
  add_norm_forward(op);
  const auto vector = [] { return Target{random({kWidth}, at::kFloat), true}; };
  AddNormBackward back{.d_normed = random(shape, dtype),
                       .d_sum = random(shape, dtype),
                       .residual = op.residual,
                       .mean = op.mean,
                       .rstd = op.rstd,
                       .weight = op.weight,
                       .dropout = op.dropout,
                       .d_residual = random(shape, dtype),
                       .d_branch = random(shape, dtype),
                       .d_weight = vector(),
                       .d_norm_bias = vector(),
                       .d_bias = vector()};
  if (rms) back.d_norm_bias = back.d_bias = {};
  const double operands = backward && p > 0 ? 5 : 4;
  measure(state, {.bytes = operands * static_cast<double>(op.branch.nbytes()), .calls = 2 * kLayers + 1},
          [&] { backward ? add_norm_backward(back) : add_norm_forward(op); });
}

void gelu(benchmark::State& state, at::ScalarType dtype, bool backward) {
  const at::Tensor x = random({kTokens, kInner}, dtype), out = random({kTokens, kInner}, dtype);
  const at::Tensor bias = random({kInner}, dtype).zero_();
  const Target d_bias{random({kInner}, at::kFloat), true};
  measure(state, {.bytes = 3.0 * static_cast<double>(x.nbytes()), .calls = kLayers},
          [&] { backward ? bias_gelu_backward(out, out, x, d_bias) : bias_gelu_forward(out, x, bias); });
}

void swiglu(benchmark::State& state, at::ScalarType dtype, bool backward) {
  const at::Tensor gate_up = random({kTokens, 2 * kGatedInner}, dtype), out = random({kTokens, kGatedInner}, dtype);
  const at::Tensor d_gate_up = random({kTokens, 2 * kGatedInner}, dtype);
  measure(state, {.bytes = (backward ? 5.0 : 3.0) * static_cast<double>(out.nbytes()), .calls = kLayers},
          [&] { backward ? swiglu_backward(d_gate_up, out, gate_up) : swiglu_forward(out, gate_up); });
}

// Forward and backward, each read and written in place, so that the values stay what they are.
void rope(benchmark::State& state, at::ScalarType dtype) {
  const at::Tensor qkv = random({kBatch, kLength, 3 * kWidth}, dtype), positions = integers({kBatch, kLength}, kLength);
  const Heads heads{kHeads, kHeads, kWidth / kHeads};
  const RopeTable table = make_rope_table({.head_width = heads.head_width, .positions = kLength});
  measure(state, {.bytes = 4.0 * 2 / 3 * static_cast<double>(qkv.nbytes()), .calls = kLayers}, [&] {
    rope_forward(qkv, positions, heads, table);
    rope_backward(qkv, positions, heads, table);
  });
}

void attention(benchmark::State& state, at::ScalarType dtype, bool backward, float p) {
  const at::Tensor qkv = random({kBatch, kLength, 3 * kWidth}, dtype),
                   d_qkv = random({kBatch, kLength, 3 * kWidth}, dtype);
  const at::Tensor out = random({kBatch, kLength, kWidth}, dtype), d_out = random({kBatch, kLength, kWidth}, dtype);
  const at::Tensor log_sum = random({kBatch, kHeads, kLength}, at::kFloat);
  const Heads heads{kHeads, kHeads, kWidth / kHeads};
  const Dropout dropout{.p = p, .site = 2, .now = &kNow, .samples = kSamples};
  attention_forward(out, log_sum, qkv, heads, dropout);
  const double forward_flops = 2.0 * static_cast<double>(kBatch * kLength * kLength * kWidth);
  measure(state, {.flops = (backward ? 2.5 : 1) * forward_flops, .calls = kLayers}, [&] {
    if (backward) {
      attention_backward(d_qkv, d_out, out, log_sum, qkv, heads, dropout);
    } else {
      attention_forward(out, log_sum, qkv, heads, dropout);
    }
  });
}

void loss(benchmark::State& state, at::ScalarType dtype) {
  const at::Tensor logits = random({kTokens, kVocabulary}, dtype), labels = integers({kTokens}, kVocabulary);
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  measure(state, {.bytes = 2.0 * static_cast<double>(logits.nbytes())},
          [&] { cross_entropy(logits, labels, sum, &kNow, true); });
}

// Of one of two parts of the columns.
void split_loss(benchmark::State& state, at::ScalarType dtype) {
  const at::Tensor logits = random({kTokens, kVocabulary}, dtype), labels = integers({kTokens}, kVocabulary);
  const at::Tensor sum = at::zeros({1}, at::kDouble), statistics = at::zeros({2, kTokens, 3}, at::kFloat);
  measure(state, {.bytes = 3.0 * static_cast<double>(logits.nbytes())}, [&] {
    softmax_statistics(statistics.select(0, 0), logits, labels, 0, 2 * kVocabulary);
    cross_entropy_split(logits, labels, statistics, 0, 2 * kVocabulary, sum, &kNow, true);
  });
}

void embedding(benchmark::State& state, at::ScalarType dtype, bool backward) {
  const at::Tensor tokens = integers({kBatch, kLength}, kVocabulary), positions = integers({kBatch, kLength}, kLength);
  const at::Tensor by_token = random({kVocabulary, kWidth}, dtype), by_position = random({kLength, kWidth}, dtype);
  const at::Tensor out = random({kTokens, kWidth}, dtype);
  const Target d_token{random({kVocabulary, kWidth}, at::kFloat), true},
      d_position{random({kLength, kWidth}, at::kFloat), false};
  measure(state, {.bytes = 3.0 * static_cast<double>(out.nbytes())}, [&] {
    if (backward) {
      embedding_backward(d_token, d_position, out, tokens, positions);
    } else {
      embedding_forward(out, tokens, positions, by_token, by_position);
    }
  });
}

void adamw(benchmark::State& state, at::ScalarType dtype) {
  const auto run = [](int64_t n) { return random({n}, at::kFloat); };
  const at::Tensor master = run(kParameters), m = run(kParameters), v = run(kParameters).abs_(),
                   gradient = run(kParameters);
  const at::Tensor weight = dtype == at::kFloat ? master : gradient.to(dtype);
  measure(state, {.bytes = (dtype == at::kFloat ? 28.0 : 30.0) * kParameters},
          [&] { adamw_step(master, m, v, gradient, weight, {.weight_decay = 0.1F}, &kNow); });
}

void norm_of_gradients(benchmark::State& state) {
  const at::Tensor gradient = random({kParameters}, at::kFloat), sum = at::zeros({1}, at::kDouble);
  measure(state, {.bytes = 4.0 * kParameters}, [&] { sum_of_squares(gradient, sum); });
}

void register_all() {
  const auto add = [](const std::string& name, const std::function<void(benchmark::State&)>& run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const std::string end = dtype == at::kFloat ? "/fp32" : "/bf16";
    add("linear_qkv" + end, [=](auto& s) { linear(s, dtype, kWidth, 3 * kWidth, kLayers); });
    add("linear_proj" + end, [=](auto& s) { linear(s, dtype, kWidth, kWidth, kLayers); });
    add("linear_up" + end, [=](auto& s) { linear(s, dtype, kWidth, kInner, kLayers); });
    add("linear_down" + end, [=](auto& s) { linear(s, dtype, kInner, kWidth, kLayers); });
    add("linear_head" + end, [=](auto& s) { linear(s, dtype, kWidth, kVocabulary, 1); });
    for (const bool backward : {false, true}) {
      const std::string pass = (backward ? "_backward" : "_forward") + end;
      add("gelu" + pass, [=](auto& s) { gelu(s, dtype, backward); });
      add("swiglu" + pass, [=](auto& s) { swiglu(s, dtype, backward); });
      add("add_rms_norm" + pass, [=](auto& s) { norm(s, dtype, backward, 0, true); });
      add("embedding" + pass, [=](auto& s) { embedding(s, dtype, backward); });
      for (const float p : {0.0F, 0.1F}) {
        const std::string dropped = pass + (p > 0 ? "/dropout" : "");
        add("add_norm" + dropped, [=](auto& s) { norm(s, dtype, backward, p, false); });
        add("attention" + dropped, [=](auto& s) { attention(s, dtype, backward, p); });
      }
    }
    add("rope" + end, [=](auto& s) { rope(s, dtype); });
    add("cross_entropy" + end, [=](auto& s) { loss(s, dtype); });
    add("cross_entropy_split" + end, [=](auto& s) { split_loss(s, dtype); });
    add("adamw" + end, [=](auto& s) { adamw(s, dtype); });
  }
  add("norm_of_gradients", norm_of_gradients);
}

}  // namespace
}  // namespace partita::internal

int main(int argc, char** argv) {
  partita::internal::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
