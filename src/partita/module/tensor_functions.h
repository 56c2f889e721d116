// Linears and embeddings whose weights are divided over tensor-parallel ranks, with gradients. Every rank of the group
// calls them with the same inputs, and calls backward with the same gradients of what is whole.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "partita/module/tensor_placement.h"

namespace partita::internal {

// x [..., inputs] times the weight's rows (TensorRole::column, vocabulary) or columns (row) of this rank. The gradient
// of x is summed over the ranks while that of the weight is computed. Results [..., outputs of this rank]; whole if the
// placement gathers, or for TensorRole::row.
[[nodiscard]] at::Tensor placed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                       const TensorPlacement& weight_placement);

// x times a weight that is not divided, whose gradient deferred_gradients.h may take.
[[nodiscard]] at::Tensor whole_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Rows [..., columns] of the table for indices into the whole vocabulary, on every rank. padding: an index whose row
// gets no gradient; -1: none.
[[nodiscard]] at::Tensor placed_embedding(const at::Tensor& table, const at::Tensor& indices, int64_t padding,
                                          const TensorPlacement&);

// part [..., rows of this rank], of outputs of a linear: those of all ranks, in the order of the whole weight's rows.
[[nodiscard]] at::Tensor gather_outputs(const at::Tensor& part, const TensorPlacement&);

// Sums over the ranks; the gradient of each rank's part is that of the sum.
[[nodiscard]] at::Tensor sum_over_ranks(const at::Tensor& part, const TensorRanks&);

struct Vocabulary {
  int64_t size = 0;   // of all ranks
  int64_t first = 0;  // the token of this rank's first column
};
// Negative log-likelihoods [rows], fp32, of labels in the whole vocabulary for this rank's logits [rows, part]. Rows
// with the label `ignored` have 0.
[[nodiscard]] at::Tensor divided_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                                               const Vocabulary&, const TensorRanks&);

}  // namespace partita::internal
