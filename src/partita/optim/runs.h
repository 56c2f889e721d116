// Runs of a slice that one launch of a kernel updates. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/ops/rounding.h"
#include "partita/shard/layout.h"

namespace partita::internal {

struct OptimizerRun {
  int64_t begin, count;  // in the slice
  bool decay;            // of all of it
  Rounding rounding;     // of bf16 master weights
  friend bool operator==(const OptimizerRun&, const OptimizerRun&) = default;
};

// master fp32: neighbours with the same hyper-parameters are one run, at most two in all. They pass over padding
// between equals: it is zero in every buffer, and stays so. bf16: one run per segment, rounded by its parameter's bits.
[[nodiscard]] std::vector<OptimizerRun> optimizer_runs(const Layout&, std::span<const Segment>, DType master);

}  // namespace partita::internal
