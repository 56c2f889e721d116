#include "partita/data/batch_reader.h"

#include <numeric>

#include "partita/base/error.h"

namespace partita::internal {

BatchReader::BatchReader(const SampleSource& source, BatchPlan plan, int64_t rank)
    : source_(&source), plan_(plan), rank_(rank) {
  if (rank < 0 || rank >= plan.ranks) fail("data-parallel rank {}: 0 to {} expected", rank, plan.ranks - 1);
}

void BatchReader::read(int64_t consumed_samples, int64_t micro_batch_index, TokenBatch& batch) const {
  batch.samples = plan_.micro_batch;
  batch.length = source_->sequence_length();
  const auto row = static_cast<size_t>(batch.length), samples = static_cast<size_t>(batch.samples);
  const bool separate = source_->documents() == Documents::separate;
  batch.tokens.resize(samples * row);
  batch.labels.resize(samples * row);
  batch.positions.resize(samples * row);
  batch.first_keys.resize(separate ? samples * row : 0);
  batch.sample_ids.resize(samples);
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(),
            first_sample(plan_, consumed_samples, micro_batch_index, rank_));
  for (size_t i = 0; i < samples; ++i) {
    const auto slots = [&](std::vector<int32_t>& values) { return std::span(values).subspan(i * row, row); };
    source_->read(batch.sample_ids[i], {.tokens = slots(batch.tokens),
                                        .labels = slots(batch.labels),
                                        .positions = slots(batch.positions),
                                        .first_keys = separate ? slots(batch.first_keys) : std::span<int32_t>()});
  }
}

}  // namespace partita::internal
