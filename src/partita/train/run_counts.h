// How far a run has come.
#pragma once
#include <cstdint>

namespace partita {

struct RunCounts {
  int64_t step = 0;              // completed
  int64_t consumed_samples = 0;  // over all ranks
  int64_t skipped_steps = 0;     // whose gradients were not finite: nothing was updated
  int64_t nan_steps = 0;         // whose loss was not finite

  bool operator==(const RunCounts&) const = default;
};

}  // namespace partita
