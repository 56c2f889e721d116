#include "partita/nn/head.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "partita/nn/layer.h"
#include "partita/nn/parts.h"
#include "partita/nn/tensor_parallel.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/flat.h"
#include "partita/ops/matmul.h"
#include "partita/ops/norm.h"

namespace partita::internal {
namespace {

constexpr int64_t kLossBytes = sizeof(double);

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

ParameterSpec Head::table() const {
  return {.name = options_.weight_name,
          .shape = {options_.vocabulary, options_.width},
          .init = {.mean = 0, .std = options_.init_std},
          .decay = true,
          .split = options_.divided ? Split::rows : Split::none,
          .parts = table_parts(options_.vocabulary)};
}

Box Head::table_rows(int rank) const { return local_boxes(table(), rank, options_.tensor.ranks).front().box; }

int64_t Head::most_table_rows() const {
  int64_t most = 0;
  for (int rank = 0; rank < options_.tensor.ranks; ++rank) most = std::max(most, table_rows(rank).rows);
  return most;
}

std::vector<ParameterSpec> Head::parameters() const {
  const int64_t c = options_.width;
  const Init zero{.mean = 0, .std = 0};
  std::vector<ParameterSpec> list = {table(),
                                     {.name = "final_norm.weight", .shape = {c}, .init = {.mean = 1, .std = 0}}};
  if (has_norm_bias()) list.push_back({.name = "final_norm.bias", .shape = {c}, .init = zero});
  if (has_entry_bias()) list.push_back({.name = options_.entry_bias_name, .shape = {c}, .init = zero});
  set_local_boxes(list, options_.tensor);
  return list;
}

std::vector<BufferSpec> Head::saved(const Shape& s) const {
  const int64_t n = options_.tensor.stream_rows(s.rows()), c = options_.width;
  return {{"r", {n, c}, options_.dtype, Recompute::full},
          {"mean", {has_norm_bias() ? n : 0}, DType::fp32, Recompute::full},
          {"rstd", {n}, DType::fp32, Recompute::full},
          {"h", {n, c}, options_.dtype, Recompute::full}};
}

std::vector<BufferSpec> Head::scratch(const Shape& s) const {
  const TensorSplit& tensor = options_.tensor;
  const int64_t c = options_.width, ranks = tensor.ranks, columns = table_rows(tensor.rank).rows;
  if (is_replicated()) {
    const int64_t n = tensor.stream_rows(s.rows());
    const int64_t chunk = head_chunk_rows(tensor.stream_parts(s.rows()).front().count, columns, size_of(options_.dtype),
                                          options_.chunk_bytes);
    return {{"logits", {chunk, columns}, options_.dtype},
            {"d_normed", {n, c}, options_.dtype},
            {"loss", {kLossBytes}, DType::uint8},
            {"all_losses", {ranks * kLossBytes}, DType::uint8}};
  }
  const int64_t n = s.rows();
  // Ranks with unequal numbers of columns exchange statistics of the same rows.
  const int64_t chunk = head_chunk_rows(n, most_table_rows(), size_of(options_.dtype), options_.chunk_bytes);
  std::vector<BufferSpec> list = {{"logits", {chunk, columns}, options_.dtype},
                                  {"d_normed", {tensor.stream_rows(n), c}, options_.dtype}};
  if (ranks == 1) return list;
  list.push_back({"statistics", {chunk, 3}, DType::fp32});
  list.push_back({"all_statistics", {ranks, chunk, 3}, DType::fp32});
  const int64_t split = tensor.splits_rows(n) ? n : 0;
  list.push_back({"partial", {split, c}, options_.dtype});
  return list;
}

at::Tensor Head::all_normed(const Context& context, const Saved& saved) const {
  return context.tensor == nullptr ? saved[kH] : context.tensor->gather_rows(saved[kH], all_rows(context));
}

void Head::chunk_loss(const at::Tensor& logits, const at::Tensor& labels, Context& context, bool gradient) const {
  if (context.tensor == nullptr) return cross_entropy(logits, labels, context.loss, context.now, gradient);
  const int64_t rows = logits.size(0), first = table_rows(options_.tensor.rank).row, ranks = options_.tensor.ranks;
  const at::Tensor own = context.scratch[kStatistics].narrow(0, 0, rows);
  const at::Tensor all = context.scratch[kAllStatistics].view(-1).narrow(0, 0, ranks * rows * 3).view({ranks, rows, 3});
  softmax_statistics(own, logits, labels, first, options_.vocabulary);
  context.tensor->gather(all, own);
  cross_entropy_split(logits, labels, all, first, options_.vocabulary, context.loss, context.now, gradient);
}

// The logits of the last position of each sample, [samples, vocabulary].
void Head::write_logits(Weights w, const at::Tensor& h, Context& context) const {
  const Shape shape = context.batch->shape();
  const at::Tensor& memory = context.scratch[kLogits];
  const int ranks = options_.tensor.ranks;
  const int64_t most = most_table_rows();
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    const at::Tensor own = chunk_logits(memory, h, w[kTable], (sample + 1) * shape.length - 1, 1)[0];
    if (context.tensor == nullptr || is_replicated()) {
      cast(context.logits[sample], own);
      continue;
    }
    const at::Tensor padded = at::zeros({most}, own.options()), all = at::empty({ranks, most}, own.options());
    padded.narrow(0, 0, own.size(0)).copy_(own);
    context.tensor->gather(all, padded);
    for (int rank = 0; rank < ranks; ++rank) {
      const Box held = table_rows(rank);
      cast(context.logits[sample].narrow(0, held.row, held.rows), all[rank].narrow(0, 0, held.rows));
    }
  }
}

Residual Head::forward(Weights w, Residual x, Context& context, Saved& saved) const {
  add_norm_forward({.sum = x.sum,
                    .branch = x.branch,
                    .bias = has_entry_bias() ? w[kEntryBias] : at::Tensor(),
                    .dropout = stream_dropout(options_.entry_dropout, options_.entry_site, context),
                    .weight = w[kNorm],
                    .norm_bias = has_norm_bias() ? w[kNormBias] : at::Tensor(),
                    .epsilon = options_.norm_epsilon,
                    .residual = saved[kR],
                    .normed = saved[kH],
                    .mean = mean(saved),
                    .rstd = saved[kRstd]});
  if (context.mode == Mode::train) return {};
  if (is_replicated() && context.mode == Mode::evaluate) {
    whole_loss(w, context, saved, nullptr);
    return {};
  }
  const at::Tensor h = all_normed(context, saved);
  if (context.mode == Mode::infer) {
    write_logits(w, h, context);
    return {};
  }
  const at::Tensor& memory = context.scratch[kLogits];
  const int64_t n = h.size(0);
  const at::Tensor labels = context.batch->labels.view({n});
  for (int64_t begin = 0; begin < n; begin += memory.size(0)) {
    const int64_t count = std::min(memory.size(0), n - begin);
    chunk_loss(chunk_logits(memory, h, w[kTable], begin, count), labels.narrow(0, begin, count), context, false);
  }
  return {};
}

void Head::divided_loss(Weights w, Context& context, Saved& saved, Grads& grads) const {
  const at::Tensor &memory = context.scratch[kLogits], &d_normed = context.scratch[kDNormed];
  const at::Tensor h = all_normed(context, saved);
  const int64_t n = h.size(0);
  const at::Tensor labels = context.batch->labels.view({n});
  const at::Tensor partial = d_normed.size(0) == n ? d_normed : context.scratch[kPartial];
  for (int64_t begin = 0; begin < n; begin += memory.size(0)) {
    const int64_t count = std::min(memory.size(0), n - begin);
    const at::Tensor logits = chunk_logits(memory, h, w[kTable], begin, count);
    chunk_loss(logits, labels.narrow(0, begin, count), context, true);
    linear_backward_input(partial.narrow(0, begin, count), logits, w[kTable]);
    grads.matmul(kTable, logits, h.narrow(0, begin, count));
  }
  if (context.tensor != nullptr) context.tensor->sum_rows(d_normed, partial);
}

void Head::whole_loss(Weights w, Context& context, Saved& saved, Grads* grads) const {
  const TensorSplit& split = options_.tensor;
  const at::Tensor &memory = context.scratch[kLogits], &d_normed = context.scratch[kDNormed];
  const int64_t rows = all_rows(context), first = split.first_row(rows);
  const at::Tensor labels = context.batch->labels.view({rows});
  const RowRun mine = split.part(rows);
  const at::Tensor loss = context.scratch[kLoss].view(at::kDouble);
  for (const RowRun& part : split.stream_parts(rows)) {
    loss.zero_();
    for (int64_t row = part.begin; row < part.begin + part.count; row += memory.size(0)) {
      const int64_t count = std::min(memory.size(0), part.begin + part.count - row);
      const at::Tensor logits = chunk_logits(memory, saved[kH], w[kTable], row - first, count);
      cross_entropy(logits, labels.narrow(0, row, count), loss, context.now, grads != nullptr);
      if (grads == nullptr) continue;
      linear_backward_input(d_normed.narrow(0, row - first, count), logits, w[kTable]);
      // Of the rows whose terms this rank adds.
      const int64_t begin = std::max(row, mine.begin), end = std::min(row + count, mine.begin + mine.count);
      if (begin < end)
        grads->matmul(kTable, logits.narrow(0, begin - row, end - begin),
                      saved[kH].narrow(0, begin - first, end - begin));
    }
    if (!split.splits_rows(rows)) context.loss.add_(loss);
  }
  if (!split.splits_rows(rows)) return;
  const at::Tensor all = context.scratch[kAllLosses].view(at::kDouble);
  context.tensor->gather(all, loss);
  for (int rank = 0; rank < split.ranks; ++rank) context.loss.add_(all.narrow(0, rank, 1));
}

ResidualGrad Head::backward(Weights w, ResidualGrad, Context& context, Saved& saved, Grads& grads) const {
  const at::Tensor& d_normed = context.scratch[kDNormed];
  if (is_replicated())
    whole_loss(w, context, saved, &grads);
  else
    divided_loss(w, context, saved, grads);
  const Dropout entry = stream_dropout(options_.entry_dropout, options_.entry_site, context);
  const OutputBuffers& out = context.outputs;
  stream_norm_backward({.d_normed = d_normed,
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
                        .d_bias = has_entry_bias() ? grads.target(kEntryBias) : Target{}},
                       context);
  return {.sum = out.d_sum, .branch = entry.p > 0 ? out.d_branch : out.d_sum};
}

}  // namespace partita::internal
