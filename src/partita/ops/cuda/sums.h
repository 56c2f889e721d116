// Second halves of sums: kernels leave a partial sum a block, and these add them in order, so that a result is the same
// bits in every run. No atomics.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal::cuda {

// out[v] += sum over parts of partial[part * vectors + v], in double; one launch.
void add_partial_sums(const double* partial, int64_t parts, int vectors, double* out);

// Up to three vectors of column sums: targets[v] [columns] (+)= sum over parts of partial[(part * vectors + v) *
// columns].
struct ColumnTargets {
  Target target[3];
};
void add_column_sums(const float* partial, int64_t parts, int vectors, int64_t columns, const ColumnTargets& targets);

}  // namespace partita::internal::cuda
