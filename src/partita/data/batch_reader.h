// Reads the micro-batches of one rank.
//
//   const BatchReader reader(train, plan, rank);
//   TokenBatch batch;                                     // its buffers are reused
//   reader.read(consumed_samples, micro_batch_index, batch);
//
// For validation, pass 0 as consumed_samples each time: every evaluation then reads the same samples in the same order.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/data/batch_plan.h"
#include "partita/data/sample_source.h"

namespace partita::internal {

struct TokenBatch {
  int64_t samples = 0, length = 0;
  std::vector<int32_t> tokens, labels, positions;  // [samples, length], as in SampleSlots
  std::vector<int32_t> first_keys;                 // [samples, length]; empty unless documents are separate
  std::vector<int64_t> sample_ids;                 // [samples]: numbered over the whole run, the same for every layout
};

class BatchReader {
 public:
  // Keeps a reference to `source`. Error: rank is outside the plan.
  BatchReader(const SampleSource& source, BatchPlan plan, int64_t rank);

  // Error: the samples exceed the source.
  void read(int64_t consumed_samples, int64_t micro_batch_index, TokenBatch& batch) const;

  [[nodiscard]] const BatchPlan& plan() const { return plan_; }

 private:
  const SampleSource* source_;
  BatchPlan plan_;
  int64_t rank_;
};

}  // namespace partita::internal
