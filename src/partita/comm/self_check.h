// Data for self_check (comm/communicator.h): known values with known sums.
#pragma once
#include <cstdint>

namespace partita::internal {

// The value of a rank's element. Small integers, exact in every dtype for any number of ranks: ranks from 64 on hold
// zeros, and 3 * 64 fits in uint8 and bf16.
[[nodiscard]] constexpr int64_t self_check_value(int64_t rank, int64_t element) {
  return rank < 64 ? (rank + element) % 4 : 0;
}

}  // namespace partita::internal
