#include "partita/train/training_data.h"

#include <ATen/ops/from_blob.h>

#include "partita/base/error.h"

namespace partita {
namespace {

at::Tensor view(std::vector<int32_t>& values, int64_t samples, int64_t length) {
  return at::from_blob(values.data(), {samples, length}, at::kInt);
}

}  // namespace

TrainingData::TrainingData(const Config& config, int rank, int ranks)
    : plan_(make_batch_plan(config.train.global_batch, config.train.micro_batch, ranks)),
      buffers_(static_cast<size_t>(plan_.accumulation())) {
  const auto tokens = std::make_shared<const IndexedDataset>(config.data.path);
  const DataSplit split = parse_split(config.data.split);
  const auto part = [&](SplitName name, int64_t samples) {
    return std::make_unique<GptDataset>(tokens, split_range(split, name, tokens->sequences()),
                                        GptIndexSpec{.split = std::string(name_of(name)),
                                                     .sequence_length = config.train.sequence_length,
                                                     .samples = samples,
                                                     .seed = static_cast<uint32_t>(config.data.seed)});
  };
  train_ = part(SplitName::train, config.train.steps * config.train.global_batch);
  train_reader_ = std::make_unique<BatchReader>(*train_, plan_, rank);
  tokens_ = tokens->tokens();
  examples_ = (train_->tokens_per_epoch() - 1) / config.train.sequence_length;
  if (config.eval.every > 0) {
    valid_ = part(SplitName::valid, config.eval.batches * config.train.global_batch);
    valid_reader_ = std::make_unique<BatchReader>(*valid_, plan_, rank);
  }
}

std::vector<Batch> TrainingData::read(const BatchReader& reader, int64_t consumed_samples) {
  std::vector<Batch> batches;
  for (int64_t m = 0; m < plan_.accumulation(); ++m) {
    TokenBatch& buffer = buffers_[static_cast<size_t>(m)];
    reader.read(consumed_samples, m, buffer);
    batches.push_back({.tokens = view(buffer.tokens, buffer.samples, buffer.length),
                       .labels = view(buffer.labels, buffer.samples, buffer.length),
                       .positions = view(buffer.positions, buffer.samples, buffer.length),
                       .samples = buffer.sample_ids});
  }
  return batches;
}

std::vector<Batch> TrainingData::training(int64_t consumed_samples) { return read(*train_reader_, consumed_samples); }

std::vector<Batch> TrainingData::validation(int64_t index) {
  PARTITA_CHECK(valid_reader_ != nullptr, "no validation data was asked for");
  return read(*valid_reader_, index * plan_.global_batch);
}

}  // namespace partita
