// Reductions on a device, bitwise equal to comm/ordered_sum.h.
#pragma once
#include <c10/core/ScalarType.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "partita/comm/communicator.h"

namespace partita::internal {

// out[i] = (row 0 + row 1) + row 2 ..., or the maximum. Row r is at `rows` + r * n elements, except this rank's own, at
// `mine`. Dtypes: check_reducible() of comm/ordered_sum.h. out may alias `mine`.
void reduce_rows_on_device(Reduce, c10::ScalarType to, void* out, c10::ScalarType from, const void* rows,
                           const void* mine, int rank, int ranks, int64_t n, cudaStream_t);

}  // namespace partita::internal
