// Softmax and cross-entropy on a device: contract of ops/cross_entropy.h, with loss and weight in device memory.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/label.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal::cuda {

// logits [n, V] fp32, bf16 or fp16; labels [n] int32, kIgnoredLabel or 0..V-1. loss [1] double += the sum over valid
// rows of log sum exp(row) - row[label]. If `gradient`, logits are overwritten with now->loss_weight * (softmax -
// onehot), 0 in ignored rows; otherwise now is unused. Bitwise reproducible. A label outside the vocabulary is recorded
// for check_values() (ops/cuda/values.h) and its row ignored.
void cross_entropy(at::Tensor logits, at::Tensor labels, at::Tensor loss, const StepScalars* now, bool gradient);

// For logits whose columns are divided into parts. A label outside the vocabulary is recorded in the same way, by
// cross_entropy_split; its logit in the statistics is 0.
void softmax_statistics(at::Tensor statistics, at::Tensor logits, at::Tensor labels, int64_t first_column,
                        int64_t all_columns);
void cross_entropy_split(at::Tensor logits, at::Tensor labels, at::Tensor statistics, int64_t first_column,
                         int64_t all_columns, at::Tensor loss, const StepScalars* now, bool gradient);

}  // namespace partita::internal::cuda
