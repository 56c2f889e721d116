#include "partita/nn/head.h"

#include <algorithm>

#include "partita/nn/layer.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/flat.h"
#include "partita/ops/matmul.h"
#include "partita/ops/norm.h"

namespace partita::internal {
namespace {

// Logits of rows [begin, begin + count) of h, in the first `count` rows of `memory`.
at::Tensor chunk_logits(const at::Tensor& memory, const at::Tensor& h, const at::Tensor& table, int64_t begin,
                        int64_t count) {
  at::Tensor logits = memory.narrow(0, 0, count);
  linear_forward(logits, h.narrow(0, begin, count), table);
  return logits;
}

}  // namespace

int64_t head_chunk_bytes(at::Device device) { return (device.is_cpu() ? int64_t{16} : int64_t{800}) << 20; }

int64_t head_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t chunk_bytes) {
  const int64_t fitting = std::max<int64_t>(64, chunk_bytes / (vocabulary * element_bytes));
  const int64_t chunks = std::max<int64_t>(1, (rows + fitting - 1) / fitting);
  return (rows + chunks - 1) / chunks;  // equal chunks, without a small remainder
}

std::vector<ParameterSpec> Head::parameters() const {
  const int64_t c = options_.width;
  const Init zero{.mean = 0, .std = 0};
  std::vector<ParameterSpec> list = {{.name = options_.weight_name,
                                      .shape = {options_.vocabulary, c},
                                      .init = {.mean = 0, .std = options_.init_std},
                                      .decay = true,
                                      .split = Split::rows},
                                     {.name = "final_norm.weight", .shape = {c}, .init = {.mean = 1, .std = 0}}};
  if (has_norm_bias()) list.push_back({.name = "final_norm.bias", .shape = {c}, .init = zero});
  if (has_entry_bias()) list.push_back({.name = options_.entry_bias_name, .shape = {c}, .init = zero});
  return list;
}

std::vector<BufferSpec> Head::saved(const Shape& s) const {
  const int64_t n = s.rows(), c = options_.width;
  return {{"r", {n, c}, options_.dtype, Recompute::full},
          {"mean", {has_norm_bias() ? n : 0}, DType::fp32, Recompute::full},
          {"rstd", {n}, DType::fp32, Recompute::full},
          {"h", {n, c}, options_.dtype, Recompute::full}};
}

std::vector<BufferSpec> Head::scratch(const Shape& s) const {
  const int64_t n = s.rows();
  return {
      {"logits",
       {head_chunk_rows(n, options_.vocabulary, size_of(options_.dtype), options_.chunk_bytes), options_.vocabulary},
       options_.dtype},
      {"d_normed", {n, options_.width}, options_.dtype}};
}

Residual Head::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = has_entry_bias() ? w[kEntryBias] : at::Tensor(),
                    .dropout = dropout_at(options_.entry_dropout, options_.entry_site, context),
                    .weight = w[kNorm],
                    .norm_bias = has_norm_bias() ? w[kNormBias] : at::Tensor(),
                    .epsilon = options_.norm_epsilon,
                    .residual = saved[kR],
                    .normed = saved[kH],
                    .mean = mean(saved),
                    .rstd = saved[kRstd]});
  const at::Tensor &memory = context.scratch[kLogits], &h = saved[kH];
  const int64_t n = h.size(0);
  if (context.mode == Mode::evaluate) {
    const at::Tensor labels = context.batch->labels.view({n});
    for (int64_t begin = 0; begin < n; begin += memory.size(0)) {
      const int64_t count = std::min(memory.size(0), n - begin);
      cross_entropy(chunk_logits(memory, h, w[kTable], begin, count), labels.narrow(0, begin, count), context.loss,
                    context.now, false);
    }
  } else if (context.mode == Mode::infer) {
    const Shape shape = context.batch->shape();
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      cast(context.logits[sample], chunk_logits(memory, h, w[kTable], (sample + 1) * shape.length - 1, 1)[0]);
  }
  return {};
}

ResidualGrad Head::backward(Weights w, ResidualGrad, Context& context, Saved& saved, Grads& grads) const {
  const at::Tensor &memory = context.scratch[kLogits], &d_normed = context.scratch[kDNormed], &h = saved[kH];
  const int64_t n = h.size(0);
  const at::Tensor labels = context.batch->labels.view({n});
  for (int64_t begin = 0; begin < n; begin += memory.size(0)) {
    const int64_t count = std::min(memory.size(0), n - begin);
    const at::Tensor logits = chunk_logits(memory, h, w[kTable], begin, count);
    cross_entropy(logits, labels.narrow(0, begin, count), context.loss, context.now, true);
    linear_backward_input(d_normed.narrow(0, begin, count), logits, w[kTable]);
    grads.matmul(kTable, logits, h.narrow(0, begin, count));
  }
  const Dropout entry = dropout_at(options_.entry_dropout, options_.entry_site, context);
  const OutputBuffers& out = context.outputs;
  add_norm_backward({.d_normed = d_normed,
                     .d_sum = {},
                     .residual = saved[kR],
                     .mean = mean(saved),
                     .rstd = saved[kRstd],
                     .weight = w[kNorm],
                     .dropout = entry,
                     .d_residual = out.d_sum,
                     .d_branch = out.d_branch,
                     .d_weight = grads.target(kNorm),
                     .d_norm_bias = has_norm_bias() ? grads.target(kNormBias) : Target{},
                     .d_bias = has_entry_bias() ? grads.target(kEntryBias) : Target{}});
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum};
}

}  // namespace partita::internal
