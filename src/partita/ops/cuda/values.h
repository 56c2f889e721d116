// Invalid values that only kernels see: a token outside the table, a label outside the vocabulary. The kernel records
// the first one in device memory and continues with a harmless value; check_values(), called once per step, turns it
// into an error.
#pragma once
#include <cstdint>

namespace partita::internal::cuda {

enum class ValueKind : int32_t { fine, token, position, label };

struct ValueError {
  ValueKind kind;
  int32_t value;
  int64_t place;   // index in [samples, length], or row
  int64_t length;  // positions per sample
  int64_t limit;   // expected: 0 .. limit - 1
};

// The current device's record, in its memory. Allocated by the first call, which must not be during graph capture.
[[nodiscard]] ValueError* value_error();

// Waits for the current stream. Error: what kernels recorded since the last call, and where.
void check_values();

}  // namespace partita::internal::cuda
