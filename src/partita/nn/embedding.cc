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
          .split = Split::rows,
          .parts = table_parts(rows)};
}

TableRows rows_of(const ParameterSpec& table, const TensorSplit& tensor) {
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
  if (!options_.tensor.splits_rows(shape.rows())) return {};
  return {{"all_rows", {shape.rows(), options_.width}, options_.dtype}};
}

TableRows Embedding::token_rows() const {
  return rows_of(table("embedding.token.weight", options_.vocabulary, options_), options_.tensor);
}

TableRows Embedding::position_rows() const {
  if (options_.positions == 0) return {};
  return rows_of(table("embedding.position.weight", options_.positions, options_), options_.tensor);
}

Residual Embedding::forward(Weights w, Residual, Context& context, Saved&) const {
  const at::Tensor& branch = context.outputs.branch;
  const bool splits = context.tensor != nullptr && context.tensor->split().splits_rows(all_rows(context));
  const at::Tensor partial = splits ? context.scratch[kAllRows] : branch;
  embedding_forward(partial, context.batch->tokens, context.batch->positions, w[kToken],
                    options_.positions > 0 ? w[kPosition] : at::Tensor(), token_rows(), position_rows());
  if (context.tensor != nullptr) context.tensor->sum_rows(branch, partial);
  return {.sum = {}, .branch = branch};
}

ResidualGrad Embedding::backward(Weights, ResidualGrad d, Context& context, Saved&, Grads& grads) const {
  at::Tensor d_out = d.branch;
  if (context.tensor != nullptr && context.tensor->split().splits_rows(all_rows(context)))
    d_out = context.tensor->gather_rows(d_out, all_rows(context));
  embedding_backward(grads.target(kToken), options_.positions > 0 ? grads.target(kPosition) : Target{}, d_out,
                     context.batch->tokens, context.batch->positions, token_rows(), position_rows());
  return {};
}

}  // namespace partita::internal
