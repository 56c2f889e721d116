// Reductions that add rows in rank order, so that the result does not depend on arrival order.
//
//   reduce_rows(Reduce::sum, at::kFloat, slice, at::kBFloat16, rows_by_rank, n);
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string>

#include "partita/comm/communicator.h"

namespace partita::internal {

// out[i] = (rows[0][i] + rows[1][i]) + rows[2][i] ..., or the maximum (NaN if any is NaN). bf16 and fp16 are added in
// fp32 and rounded once to nearest even; integers wrap around. `to` equals `from`, or is fp32 for bf16 and fp16. `out`
// may be one of the rows, but must not partially overlap one. Error: an unsupported pair of types.
void reduce_rows(Reduce, c10::ScalarType to, void* out, c10::ScalarType from, std::span<const void* const> rows,
                 int64_t n);

// Error, naming the call: an unsupported pair of types.
void check_reducible(const std::string& call, c10::ScalarType to, c10::ScalarType from);

}  // namespace partita::internal
