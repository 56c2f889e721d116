// Softmax and cross-entropy of one chunk of rows, so that the logits of a batch are never stored whole; ranks may hold
// different columns of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/base/label.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

// logits [n, V] fp32, bf16 or fp16; labels [n] int32, kIgnoredLabel or 0..V-1. loss [1] double += the sum over valid
// rows of log sum exp(row) - row[label]. If `gradient`, logits are overwritten with now->loss_weight * (softmax -
// onehot), 0 in ignored rows. Bitwise reproducible for any number of threads. Error: a label outside the vocabulary,
// with its row.
void cross_entropy(at::Tensor logits, at::Tensor labels, at::Tensor loss, const StepScalars* now, bool gradient);

// The same for logits whose columns are divided into parts, each on a rank of its own, with one exchange of three
// numbers a row (Megatron-LM's core/tensor_parallel/cross_entropy.py reduces over the ranks three times):
//
//   softmax_statistics(all.select(0, rank), logits, labels, first_column, all_columns);     // all: [parts, n, 3]
//   ...                                                            // gather `all` over the ranks
//   cross_entropy_split(logits, labels, all, first_column, all_columns, loss, now, true);
//
// logits [n, columns] fp32, bf16 or fp16: the columns of the vocabulary from first_column on; columns >= 1. labels [n]
// int32, kIgnoredLabel or 0..all_columns-1. Errors: a label outside the vocabulary, with its row; columns outside it.

// statistics [n, 3] fp32: the largest logit of the row, the sum of exp(logit - largest), and the label's logit, or 0 if
// it is in another part or the label is ignored.
void softmax_statistics(at::Tensor statistics, at::Tensor logits, at::Tensor labels, int64_t first_column,
                        int64_t all_columns);
// statistics [parts, n, 3] fp32: those of all parts. loss [1] double += the sum over valid rows of log sum exp(row) -
// row[label], from the statistics in the order of the parts, so that every rank gets the same bits. If `gradient`,
// logits are overwritten with now->loss_weight * (softmax - onehot) of these columns, 0 in ignored rows. Bitwise
// reproducible for any number of threads. The sum of a part has the precision of fp32.
void cross_entropy_split(at::Tensor logits, at::Tensor labels, at::Tensor statistics, int64_t first_column,
                         int64_t all_columns, at::Tensor loss, const StepScalars* now, bool gradient);

}  // namespace partita::internal
