// Second pass of reductions: kernels write one partial sum per block, added here in order, without atomics, so that
// results are bitwise reproducible.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal::cuda {

// out[v] += sum over parts of partial[part * vectors + v], in double; a single launch.
void add_partial_sums(const double* partial, int64_t parts, int vectors, double* out);

// Column sums for up to three vectors: targets[v] [columns] (+)= sum over parts of partial[(part * vectors + v) *
// columns].
struct ColumnTargets {
  Target target[3];
};
void add_column_sums(const float* partial, int64_t parts, int vectors, int64_t columns, const ColumnTargets& targets);

}  // namespace partita::internal::cuda
