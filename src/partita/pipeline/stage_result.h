// What the passes of a pipeline leave for each other, and a table of a value for each. Pure.
//
//   ResultTable<double> made_at(lists, placement);
//   made_at[{.gradient = false, .stage = 3, .micro_batch = 0}] = 7.5;
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"

namespace partita::internal {

// The output of a stage's forward, or the gradient of its input.
struct StageResult {
  bool gradient = false;
  int stage = 0;
  int micro_batch = 0;

  friend bool operator==(const StageResult&, const StageResult&) = default;
};

// "the output of stage 3 (rank 1) for micro-batch 0"
[[nodiscard]] std::string result_name(const StageResult&, const StagePlacement&);

template <class T>
class ResultTable {
 public:
  // Of all micro-batches in the lists.
  ResultTable(const ActionLists& lists, const StagePlacement& placement) : stages_(placement.stages()) {
    int micro_batches = 0;
    for (const ActionList& list : lists)
      for (const PipelineAction& action : list) micro_batches = std::max(micro_batches, action.micro_batch + 1);
    values_.resize(2 * static_cast<size_t>(stages_) * static_cast<size_t>(micro_batches));
  }

  T& operator[](const StageResult& result) {
    const size_t row = 2 * static_cast<size_t>(result.micro_batch) + (result.gradient ? 1 : 0);
    return values_[row * static_cast<size_t>(stages_) + static_cast<size_t>(result.stage)];
  }

 private:
  int stages_;
  std::vector<T> values_;  // [micro-batch][output, gradient][stage]
};

}  // namespace partita::internal
