#include "partita/ops/cuda/attention.h"

#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "partita/base/random.h"
#include "partita/ops/cuda/attention_plain.h"
#include "partita/ops/cuda/attention_problem.h"
#include "partita/ops/cuda/check.h"
#include "partita/ops/cuda/workspace.h"

namespace partita::internal::cuda {
namespace {

cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream(); }

bool at_multiple_of_16(const at::Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
}

int64_t samples_of(const AttentionProblem& p) { return p.qkv.size(0); }
int64_t length_of(const AttentionProblem& p) { return p.qkv.size(1); }
int64_t row_of(const Heads& h) { return (h.heads + 2 * h.kv_heads) * h.head_width; }
int64_t keys_row_of(const Heads& h) { return 2 * h.kv_heads * h.head_width; }
int64_t key_count_of(const AttentionProblem& p) { return p.keys.split.ranks * length_of(p); }

void check_dropout(const Dropout& dropout, int64_t samples) {
  if (dropout.p == 0) return;
  PARTITA_CHECK(dropout.p > 0 && dropout.p < 1, "dropout probability {} is not in [0, 1)", dropout.p);
  PARTITA_CHECK(dropout.first_head >= 0, "dropout of attention: the first head is {}", dropout.first_head);
  PARTITA_CHECK(dropout.now != nullptr, "dropout needs the step");
  check_tensor(dropout.samples, "samples", {samples}, at::kLong);
}

void check_problem(const AttentionProblem& p) {
  const at::ScalarType dtype = check_activation(p.qkv, "qkv");
  PARTITA_CHECK(p.qkv.dim() == 3, "qkv has {} dimensions, expected [samples, length, vectors]", p.qkv.dim());
  const Heads& h = p.heads;
  PARTITA_CHECK(h.kv_heads > 0 && h.heads % h.kv_heads == 0, "{} query heads do not divide among {} key/value heads",
                h.heads, h.kv_heads);
  if (h.head_width > kMostHeadWidth)
    fail("heads of width {}: attention on a device takes up to {}", h.head_width, kMostHeadWidth);
  const int64_t samples = samples_of(p), length = length_of(p);
  if (std::max(samples, h.heads) > kMostBlocks)
    fail("attention of {} samples with {} heads: a device takes up to {} at once", samples, h.heads, kMostBlocks);
  check_tensor(p.qkv, "qkv", {samples, length, row_of(h)}, dtype);
  check_tensor(p.out, "out", {samples, length, h.heads * h.head_width}, dtype);
  check_optional(p.log_sum, "log_sum", {samples, h.heads, length}, at::kFloat);
  check_optional(p.first_keys, "first_keys", {samples, length}, at::kInt);
  const ContextSplit& split = p.keys.split;
  PARTITA_CHECK(p.keys.keys_values.defined() == split.cuts() && length % (split.cuts() ? 2 : 1) == 0,
                "queries of one of {} ranks: {} of each sample, {} keys of whole sequences", split.ranks, length,
                p.keys.keys_values.defined() ? "with" : "without");
  check_optional(p.keys.keys_values, "keys_values", {samples, key_count_of(p), keys_row_of(h)}, dtype);
  check_dropout(p.dropout, samples);
}

// Forward and backward must make the same choice: with dropout, cuDNN's mask differs from that of the plain kernels.
bool suits_cudnn(at::ScalarType dtype, const Heads& heads) {
  return dtype != at::kFloat && heads.head_width % 8 == 0 && heads.head_width <= 128;
}
bool suits_cudnn(const AttentionProblem& p) {
  const int64_t sums_of_first_run = samples_of(p) * p.heads.heads * p.keys.split.run(length_of(p));
  const bool second_aligned = !p.log_sum.defined() || sums_of_first_run % 4 == 0 || !p.keys.split.cuts();
  return suits_cudnn(p.qkv.scalar_type(), p.heads) && p.qkv.numel() > 0 && !p.first_keys.defined() &&
         at_multiple_of_16(p.qkv) && at_multiple_of_16(p.out) && at_multiple_of_16(p.log_sum) && second_aligned &&
         at_multiple_of_16(p.d_out) && at_multiple_of_16(p.d_qkv) && at_multiple_of_16(p.keys.keys_values) &&
         at_multiple_of_16(p.d_keys_values);
}

CudnnPlan plan_of(CudnnPlan::Kind kind, at::ScalarType dtype, int64_t samples, int64_t length, const Heads& heads,
                  float dropout, const ContextSplit& split, const QueryRun& run) {
  const int64_t whole = split.cuts() ? split.ranks * length : 0, own = split.cuts() ? run.keys() : 0;
  return {.kind = kind,
          .dtype = dtype,
          .device = c10::cuda::current_device(),
          .samples = samples,
          .heads = heads.heads,
          .kv_heads = heads.kv_heads,
          .head_width = heads.head_width,
          .queries = run.count,
          .keys = run.keys(),
          .length = length,
          .whole = whole,
          .gradient_keys = run.first > 0 ? whole : own,
          .dropout = dropout};
}
CudnnPlan plan_of(CudnnPlan::Kind kind, const AttentionProblem& p, const QueryRun& run) {
  return plan_of(kind, p.qkv.scalar_type(), samples_of(p), length_of(p), p.heads, p.dropout.p, p.keys.split, run);
}
std::vector<QueryRun> runs_of(const AttentionProblem& p) { return query_runs(length_of(p), p.keys.split); }

bool has_plans(CudnnPlan::Kind kind, const AttentionProblem& p) {
  return std::ranges::all_of(runs_of(p),
                             [&](const QueryRun& run) { return cudnn_workspace(plan_of(kind, p, run)) >= 0; });
}

void run_plans(CudnnPlan::Kind kind, const AttentionProblem& p) {
  for (const QueryRun& run : runs_of(p)) {
    run_cudnn(plan_of(kind, p, run), p, run);
    // The longer piece overwrites the gradients of the keys that it reads; the shorter one adds to them.
    if (p.d_keys_values.defined() && run.first > 0)
      p.d_keys_values.narrow(1, run.keys(), key_count_of(p) - run.keys()).zero_();
  }
}

CudnnPlan::Kind backward_kind(bool deterministic) {
  return deterministic ? CudnnPlan::Kind::repeatable_backward : CudnnPlan::Kind::backward;
}

PlainAttention::Type type_of(at::ScalarType dtype) {
  if (dtype == at::kFloat) return PlainAttention::Type::fp32;
  return dtype == at::kHalf ? PlainAttention::Type::fp16 : PlainAttention::Type::bf16;
}

// Heads `first`, first + 1 ... of tokens with `row` elements each.
HeadVectors vectors(const at::Tensor& tensor, int64_t first, int64_t row, int64_t head_width) {
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr()) + first * head_width * tensor.element_size();
  return {.data = data, .sample = tensor.size(1) * row, .token = row, .head = head_width};
}

// Vectors of cached keys or values [samples, kv_heads, capacity, head_width].
HeadVectors kept_vectors(const at::Tensor& kept) {
  const int64_t capacity = kept.size(2), width = kept.size(3);
  return {.data = kept.mutable_data_ptr(),
          .sample = kept.size(1) * capacity * width,
          .token = width,
          .head = capacity * width};
}

PlainAttention plain_problem(const AttentionProblem& p) {
  const Heads& h = p.heads;
  const int64_t row = row_of(h), out_row = h.heads * h.head_width;
  PlainAttention a{.type = type_of(p.qkv.scalar_type()),
                   .samples = samples_of(p),
                   .length = length_of(p),
                   .heads = h.heads,
                   .kv_heads = h.kv_heads,
                   .head_width = h.head_width,
                   .keys = key_count_of(p),
                   .run = p.keys.split.run(length_of(p)),
                   .shift = {p.keys.split.shift(0, length_of(p)), p.keys.split.shift(1, length_of(p))},
                   .scale = 1 / std::sqrt(static_cast<float>(h.head_width))};
  a.aligned = h.head_width * p.qkv.element_size() % 16 == 0 && at_multiple_of_16(p.qkv) && at_multiple_of_16(p.d_out);
  a.q = vectors(p.qkv, 0, row, h.head_width);
  a.k = vectors(p.qkv, h.heads, row, h.head_width);
  a.v = vectors(p.qkv, h.heads + h.kv_heads, row, h.head_width);
  const at::Tensor& whole = p.keys.keys_values;
  if (whole.defined()) {
    a.k = vectors(whole, 0, keys_row_of(h), h.head_width);
    a.v = vectors(whole, h.kv_heads, keys_row_of(h), h.head_width);
    a.aligned = a.aligned && at_multiple_of_16(whole);
  }
  a.out = vectors(p.out, 0, out_row, h.head_width);
  if (p.d_out.defined()) {
    a.d_out = vectors(p.d_out, 0, out_row, h.head_width);
    a.d_q = vectors(p.d_qkv, 0, row, h.head_width);
    a.d_k = vectors(p.d_qkv, h.heads, row, h.head_width);
    a.d_v = vectors(p.d_qkv, h.heads + h.kv_heads, row, h.head_width);
    if (whole.defined()) {
      a.d_k = vectors(p.d_keys_values, 0, keys_row_of(h), h.head_width);
      a.d_v = vectors(p.d_keys_values, h.kv_heads, keys_row_of(h), h.head_width);
    }
    a.delta = reinterpret_cast<float*>(workspace(a.samples * a.heads * a.length * int64_t{sizeof(float)}));
  }
  if (p.log_sum.defined()) a.log_sum = p.log_sum.mutable_data_ptr<float>();
  if (p.first_keys.defined()) a.first_keys = p.first_keys.const_data_ptr<int32_t>();
  if (p.dropout.p > 0) {
    a.threshold = dropout_threshold(p.dropout.p);
    a.keep_scale = dropout_scale(p.dropout.p);
    a.site = p.dropout.site;
    a.first_head = p.dropout.first_head;
    a.now = p.dropout.now;
    a.sample_ids = p.dropout.samples.const_data_ptr<int64_t>();
  }
  return a;
}

}  // namespace

std::vector<QueryRun> query_runs(int64_t length, const ContextSplit& split) {
  if (!split.cuts()) return {{.first = 0, .count = length, .position = 0}};
  const int64_t run = split.run(length);
  const auto [first, second] = split.pieces(split.rank);
  return {{.first = run, .count = run, .position = second * run}, {.first = 0, .count = run, .position = first * run}};
}

void write_cudnn_seed(int64_t* seed_and_offset, const Dropout& dropout, int64_t first_position) {
  launch_cudnn_seed(seed_and_offset, dropout.site, dropout.first_head, first_position, dropout.now,
                    dropout.samples.const_data_ptr<int64_t>(), current_stream());
}

void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads heads, const Dropout& dropout,
                       at::Tensor first_keys, const WholeKeys& keys) {
  const AttentionProblem p{.qkv = qkv,
                           .out = out,
                           .log_sum = log_sum,
                           .first_keys = first_keys,
                           .heads = heads,
                           .dropout = dropout,
                           .keys = keys};
  check_problem(p);
  if (suits_cudnn(p)) {
    const CudnnPlan::Kind kind = log_sum.defined() ? CudnnPlan::Kind::forward : CudnnPlan::Kind::inference;
    // Without dropout, forward and backward may be split between cuDNN and the plain kernels.
    const bool whole = dropout.p == 0 || has_plans(CudnnPlan::Kind::backward, p);
    if (whole && has_plans(kind, p)) return run_plans(kind, p);
  }
  launch_forward(plain_problem(p), current_stream());
}

void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv,
                        Heads heads, const Dropout& dropout, at::Tensor first_keys, const WholeKeys& keys,
                        at::Tensor d_keys_values, bool deterministic) {
  const AttentionProblem p{.qkv = qkv,
                           .out = out,
                           .log_sum = log_sum,
                           .d_qkv = d_qkv,
                           .d_out = d_out,
                           .first_keys = first_keys,
                           .heads = heads,
                           .dropout = dropout,
                           .keys = keys,
                           .d_keys_values = d_keys_values};
  check_problem(p);
  PARTITA_CHECK(log_sum.defined(), "log_sum is missing");
  check_tensor(d_out, "d_out", out.sizes(), qkv.scalar_type());
  check_tensor(d_qkv, "d_qkv", qkv.sizes(), qkv.scalar_type());
  if (keys.keys_values.defined())
    check_tensor(d_keys_values, "d_keys_values", keys.keys_values.sizes(), qkv.scalar_type());
  if (suits_cudnn(p)) {
    if (has_plans(backward_kind(deterministic), p)) return run_plans(backward_kind(deterministic), p);
    if (dropout.p > 0 && has_plans(CudnnPlan::Kind::backward, p))
      fail(
          "cuDNN has no repeatable backward of attention with dropout for {} samples of {}, {}/{} heads of {}: set "
          "deterministic or the dropout of attention to off",
          samples_of(p), length_of(p), heads.heads, heads.kv_heads, heads.head_width);
  }
  launch_backward(plain_problem(p), current_stream());
}

void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads heads) {
  const AttentionProblem p{.qkv = qkv, .out = out, .log_sum = {}, .heads = heads};
  check_problem(p);
  const int64_t samples = samples_of(p), length = length_of(p);
  PARTITA_CHECK(keys.defined() && keys.dim() == 4, "keys are missing or have not 4 dimensions");
  const int64_t capacity = keys.size(2);
  check_tensor(keys, "keys", {samples, heads.kv_heads, capacity, heads.head_width}, qkv.scalar_type());
  check_tensor(values, "values", {samples, heads.kv_heads, capacity, heads.head_width}, qkv.scalar_type());
  PARTITA_CHECK(past >= 0 && past + length <= capacity, "{} positions behind {} in memory for {}", length, past,
                capacity);
  PlainAttention a = plain_problem(p);
  const HeadVectors kept_keys = kept_vectors(keys), kept_values = kept_vectors(values);
  const auto append = [&](const HeadVectors& from, const HeadVectors& to) {
    launch_append(a.type, from, to, samples, length, heads.kv_heads, heads.head_width, past, current_stream());
  };
  append(a.k, kept_keys);
  append(a.v, kept_values);
  if (past == 0 && length > 1) return cuda::attention_forward(out, {}, qkv, heads, Dropout{});
  a.k = kept_keys, a.v = kept_values;
  a.keys = past + length, a.shift[0] = past;
  a.aligned = a.aligned && at_multiple_of_16(keys) && at_multiple_of_16(values);
  launch_forward(a, current_stream());
}

int64_t attention_workspace(at::ScalarType dtype, int64_t samples, int64_t length, Heads heads, float dropout,
                            bool deterministic, const ContextSplit& context) {
  const int64_t plain = samples * heads.heads * length * int64_t{sizeof(float)};
  if (!suits_cudnn(dtype, heads)) return plain;
  int64_t most = 0;
  for (const auto kind : {CudnnPlan::Kind::forward, backward_kind(deterministic)})
    for (const QueryRun& run : query_runs(length, context)) {
      const int64_t bytes = cudnn_workspace(plan_of(kind, dtype, samples, length, heads, dropout, context, run));
      most = std::max(most, bytes >= 0 ? bytes : plain);
    }
  return most;
}

}  // namespace partita::internal::cuda
