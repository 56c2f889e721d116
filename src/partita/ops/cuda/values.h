// Values that only a kernel sees: a token outside the table, a label outside the vocabulary. The kernel notes the first
// one in memory of the device and goes on with a harmless value; check_values() turns the note into an error, once a
// step.
#pragma once
#include <cstdint>

namespace partita::internal::cuda {

enum class ValueKind : int32_t { fine, token, position, label };

struct ValueError {
  ValueKind kind;
  int32_t value;
  int64_t place;   // index in [samples, length], or row
  int64_t length;  // places a sample
  int64_t limit;   // 0 .. limit - 1 was expected
};

// The note of the current device, in its memory. Made by the first call: not while a graph is captured.
[[nodiscard]] ValueError* value_error();

// Waits for the current stream. Error: what a kernel found since the last call, and where.
void check_values();

}  // namespace partita::internal::cuda
