#include "partita/nn/embedding.h"

#include "partita/nn/layer.h"
#include "partita/nn/parts.h"
#include "partita/nn/tensor_parallel.h"

namespace partita::internal {
namespace {

ParameterSpec table(const char* name, int64_t rows, const EmbeddingOptions& options) {
  return {.name = name,
          .shape = {rows, options.width},
          .init = {.mean = 0, .std = options.init_std},
          .decay = true,
          .split = options.divided ? Split::rows : Split::none,
          .parts = table_parts(rows)};
}

// A run of rows of indices [samples, length].
at::Tensor run_of(const at::Tensor& indices, const RowRun& run) {
  return indices.reshape({1, -1}).narrow(1, run.begin, run.count);
}

TableRows held_rows(const ParameterSpec& table, const TensorSplit& tensor) {
  return {.first = local_boxes(table, tensor.rank, tensor.ranks).front().box.row, .total = table.shape[0]};
}

}  // namespace

std::vector<ParameterSpec> Embedding::parameters() const {
  std::vector<ParameterSpec> list = {table("embedding.token.weight", options_.vocabulary, options_)};
  if (options_.positions > 0) list.push_back(table("embedding.position.weight", options_.positions, options_));
  set_local_boxes(list, options_.tensor);
  return list;
}

std::vector<BufferSpec> Embedding::scratch(const Shape& shape) const {
  if (!options_.divided || !options_.tensor.splits_rows(shape.rows())) return {};
  return {{"all_rows", {shape.rows(), options_.width}, options_.dtype}};
}

TableRows Embedding::token_rows() const {
  return held_rows(table("embedding.token.weight", options_.vocabulary, options_), options_.tensor);
}

TableRows Embedding::position_rows() const {
  if (options_.positions == 0) return {};
  return held_rows(table("embedding.position.weight", options_.positions, options_), options_.tensor);
}

Residual Embedding::forward(Weights w, Residual, Context& context, Saved&) const {
  const at::Tensor& branch = context.outputs.branch;
  if (!options_.divided) {
    const int64_t rows = all_rows(context), first = options_.tensor.first_row(rows);
    const RowRun own{first, options_.tensor.stream_rows(rows)};
    embedding_forward(branch, run_of(context.batch->tokens, own), run_of(context.batch->positions, own), w[kToken],
                      options_.positions > 0 ? w[kPosition] : at::Tensor());
    return {.sum = {}, .branch = branch};
  }
  const bool splits = context.tensor != nullptr && context.tensor->split().splits_rows(all_rows(context));
  const at::Tensor partial = splits ? context.scratch[kAllRows] : branch;
  embedding_forward(partial, context.batch->tokens, context.batch->positions, w[kToken],
                    options_.positions > 0 ? w[kPosition] : at::Tensor(), token_rows(), position_rows());
  if (context.tensor != nullptr) context.tensor->sum_rows(branch, partial);
  return {.sum = {}, .branch = branch};
}

ResidualGrad Embedding::backward(Weights, ResidualGrad d, Context& context, Saved&, Grads& grads) const {
  at::Tensor d_out = d.branch;
  const auto d_position = [&] { return options_.positions > 0 ? grads.target(kPosition) : Target{}; };
  if (!options_.divided && context.tensor != nullptr) {
    const int64_t rows = all_rows(context);
    const RowRun own = options_.tensor.part(rows);
    if (own.count == 0) return {};  // fewer rows than ranks
    if (d_out.size(0) == rows) d_out = rows_of(d_out, own);
    embedding_backward(grads.target(kToken), d_position(), d_out, run_of(context.batch->tokens, own),
                       run_of(context.batch->positions, own));
    return {};
  }
  if (context.tensor != nullptr && context.tensor->split().splits_rows(all_rows(context)))
    d_out = context.tensor->gather_rows(d_out, all_rows(context));
  embedding_backward(grads.target(kToken), d_position(), d_out, context.batch->tokens, context.batch->positions,
                     token_rows(), position_rows());
  return {};
}

}  // namespace partita::internal
