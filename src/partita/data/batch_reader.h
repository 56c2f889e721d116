// Fills the micro-batches that a rank trains on.
//
//   const BatchReader reader(train, plan, rank);
//   TokenBatch batch;                                     // its buffers are kept from read to read
//   reader.read(consumed_samples, micro_batch_index, batch);
//
// For validation hand in 0 as consumed_samples each time: the same samples in the same order in every evaluation.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/data/batch_plan.h"
#include "partita/data/sample_source.h"

namespace partita::internal {

struct TokenBatch {
  int64_t samples = 0, length = 0;
  std::vector<int32_t> tokens, labels, positions;  // [samples, length], as SampleSlots has them
  std::vector<int32_t> first_keys;                 // [samples, length]; empty unless documents are separate
  std::vector<int64_t> sample_ids;                 // [samples]: counted over the whole run, the same on every layout
};

class BatchReader {
 public:
  // Keeps a reference to `source`. Error: rank outside the plan's.
  BatchReader(const SampleSource& source, BatchPlan plan, int64_t rank);

  // Error: samples beyond the source's.
  void read(int64_t consumed_samples, int64_t micro_batch_index, TokenBatch& batch) const;

  [[nodiscard]] const BatchPlan& plan() const { return plan_; }

 private:
  const SampleSource* source_;
  BatchPlan plan_;
  int64_t rank_;
};

}  // namespace partita::internal
