// Records invalid values in kernels (ops/cuda/values.h).
#pragma once
#include "partita/ops/cuda/values.h"

namespace partita::internal::cuda {

// Whether value is in 0..limit-1; if not, records it unless an earlier one is recorded.
__device__ __forceinline__ bool check_value(int32_t value, int64_t limit, ValueKind kind, int64_t place, int64_t length,
                                            ValueError* error) {
  if (value >= 0 && value < limit) return true;
  auto* found = reinterpret_cast<int*>(&error->kind);
  if (atomicCAS(found, static_cast<int>(ValueKind::fine), static_cast<int>(kind)) == static_cast<int>(ValueKind::fine))
    error->value = value, error->place = place, error->length = length, error->limit = limit;
  return false;
}

}  // namespace partita::internal::cuda
