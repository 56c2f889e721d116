// Softmax and cross-entropy of one chunk of rows, so that the logits of a batch are never stored whole.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/label.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

// logits [n, V] fp32, bf16 or fp16; labels [n] int32, kIgnoredLabel or 0..V-1. loss [1] double += the sum over valid
// rows of log sum exp(row) - row[label]. If `gradient`, logits are overwritten with now->loss_weight * (softmax -
// onehot), 0 in ignored rows. Bitwise reproducible for any number of threads. Error: a label outside the vocabulary,
// with its row.
void cross_entropy(at::Tensor logits, at::Tensor labels, at::Tensor loss, const StepScalars* now, bool gradient);

}  // namespace partita::internal
