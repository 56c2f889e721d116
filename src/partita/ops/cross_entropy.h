// Softmax and cross-entropy of one chunk of rows, so that the logits of a whole batch never exist.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/label.h"

namespace partita {

// logits [n, V] fp32, bf16 or fp16; labels [n] int32, kIgnoredLabel or 0..V-1. Returns the sum over counted rows of
// log sum exp(row) - row[label], in double. If `gradient`, logits become weight * (softmax - onehot), 0 in ignored
// rows. The same for every number of threads. Error: a label outside the vocabulary, with its row.
double cross_entropy(at::Tensor logits, at::Tensor labels, float weight, bool gradient);

}  // namespace partita
