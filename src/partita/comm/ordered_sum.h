// The arithmetic of reductions: rows added in their order, so that the result does not depend on who arrived first.
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
// fp32 and rounded once to nearest even; integers wrap around. `to` is `from`, or fp32 from bf16 and fp16. `out` may be
// one of the rows, but not overlap one otherwise. Error: a pair of types that is not supported.
void reduce_rows(Reduce, c10::ScalarType to, void* out, c10::ScalarType from, std::span<const void* const> rows,
                 int64_t n);

// Error, naming the call, if this pair of types is not supported.
void check_reducible(const std::string& call, c10::ScalarType to, c10::ScalarType from);

}  // namespace partita::internal
