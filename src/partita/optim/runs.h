// Runs of a slice, each updated by one kernel launch. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/ops/rounding.h"
#include "partita/shard/layout.h"

namespace partita::internal {

struct OptimizerRun {
  int64_t begin, count;  // within the slice
  bool decay;            // the whole run has weight decay
  Rounding rounding;     // for bf16 master weights
  friend bool operator==(const OptimizerRun&, const OptimizerRun&) = default;
};

// fp32 master: neighbors with equal hyperparameters form one run, at most two in total; runs include padding, which is
// and stays zero in every buffer. bf16: one run per segment, each rounded with its parameter's random bits.
[[nodiscard]] std::vector<OptimizerRun> optimizer_runs(const Layout&, std::span<const Segment>, DType master);

}  // namespace partita::internal
