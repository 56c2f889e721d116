#include "partita/data/batch_reader.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"

namespace partita {

BatchReader::BatchReader(const GptDataset& dataset, BatchPlan plan, int64_t rank)
    : dataset_(&dataset), plan_(plan), rank_(rank) {
  if (rank < 0 || rank >= plan.ranks) fail("data-parallel rank {}: 0 to {} expected", rank, plan.ranks - 1);
}

void BatchReader::read(int64_t consumed_samples, int64_t micro_batch_index, TokenBatch& batch) const {
  const int64_t length = dataset_->sequence_length();
  const auto count = static_cast<size_t>(plan_.micro_batch * length), row = static_cast<size_t>(length);
  batch.samples = plan_.micro_batch;
  batch.length = length;
  batch.tokens.resize(count);
  batch.labels.resize(count);
  batch.positions.resize(count);
  batch.sample_ids.resize(static_cast<size_t>(plan_.micro_batch));
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(),
            first_sample(plan_, consumed_samples, micro_batch_index, rank_));
  std::vector<int32_t> sample(row + 1);
  for (size_t i = 0; i < batch.sample_ids.size(); ++i) {
    dataset_->read(batch.sample_ids[i], sample);
    const auto at = static_cast<int64_t>(i) * length;
    std::copy_n(sample.begin(), row, batch.tokens.begin() + at);
    std::copy_n(sample.begin() + 1, row, batch.labels.begin() + at);
    std::iota(batch.positions.begin() + at, batch.positions.begin() + at + length, 0);
  }
}

}  // namespace partita
