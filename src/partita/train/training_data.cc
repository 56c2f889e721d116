#include "partita/train/training_data.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/data/prompt_dataset.h"
#include "partita/train/token_samples.h"

namespace partita::internal {

Batch view_of(TokenBatch& buffer) {
  const auto view = [&](std::vector<int32_t>& values) {
    return values.empty() ? at::Tensor() : at::from_blob(values.data(), {buffer.samples, buffer.length}, at::kInt);
  };
  return {.tokens = view(buffer.tokens),
          .labels = view(buffer.labels),
          .positions = view(buffer.positions),
          .samples = buffer.sample_ids,
          .first_keys = view(buffer.first_keys)};
}

TrainingData::TrainingData(const Config& config, int rank, int ranks, RunPosition position)
    : plan_(make_batch_plan(config.train.global_batch, config.train.micro_batch, ranks)),
      buffers_(static_cast<size_t>(plan_.accumulation())) {
  const int64_t steps_left = std::max<int64_t>(config.train.steps - position.step, 0);
  const int64_t samples = position.consumed_samples + steps_left * config.train.global_batch;
  planned_ = std::move(position.planned_samples);
  if (planned_.empty() || planned_.back() < samples) planned_.push_back(samples);
  if (config.data.format == DataFormat::prompts)
    open_prompts(config, planned_.back(), rank == 0);
  else
    open_tokens(config, rank, ranks);
  train_reader_ = std::make_unique<BatchReader>(*train_, plan_, rank);
  if (valid_) valid_reader_ = std::make_unique<BatchReader>(*valid_, plan_, rank);
  identity_["data.seed"] = std::to_string(config.data.seed);
  identity_["data.separate_documents"] = documents_of(config.data) == Documents::separate ? "true" : "false";
  if (config.data.validation.empty()) identity_["data.split"] = config.data.split;
}

void TrainingData::open_tokens(const Config& config, int rank, int ranks) {
  TokenSamples train = open_token_samples(config, SplitName::train, planned_, rank, ranks);
  train_ = std::move(train.source);
  examples_ = train.samples_per_epoch;
  identity_[config.data.blend.empty() ? "tokens in data.path" : "data.blend"] = train.parts;
  if (config.eval.every > 0) {
    const int64_t samples = config.eval.batches * config.train.global_batch;
    valid_ = open_token_samples(config, SplitName::valid, std::span(&samples, 1), rank, ranks).source;
  }
}

void TrainingData::open_prompts(const Config& config, int64_t samples, bool warns) {
  const DataConfig& d = config.data;
  if (d.tokenizer.empty()) fail("data.tokenizer is not set, and model.from has none: give the model's tokenizer.json");
  const auto tokenizer = load_tokenizer(d.tokenizer);
  const auto examples = [&](const std::filesystem::path& file) {
    auto read = std::make_shared<const PromptExamples>(
        read_prompts(file, *tokenizer,
                     {.prompt_key = d.prompt_key,
                      .completion_key = d.completion_key,
                      .specials = {.allow_special = d.allow_special, .add_special = d.add_special},
                      .workers = at::get_num_threads()}));
    if (warns && read->unread)
      log::warn("{}", describe(*read->unread, file.string(), "data.allow_special = true reads them as tokens"));
    return read;
  };
  const auto open = [&](std::shared_ptr<const PromptExamples> all, SplitName name, int64_t count) {
    const SequenceRange range =
        d.validation.empty() ? split_range(parse_split(d.split), name, all->size()) : SequenceRange{0, all->size()};
    auto dataset = std::make_unique<PromptDataset>(std::move(all), range,
                                                   PromptDatasetSpec{.sequence_length = config.train.sequence_length,
                                                                     .samples = count,
                                                                     .seed = static_cast<uint64_t>(d.seed),
                                                                     .packed = d.packing,
                                                                     .too_long = d.too_long,
                                                                     .documents = documents_of(d)});
    log::info("{}: {}", name_of(name), describe(dataset->summary()));
    return dataset;
  };
  const auto all = examples(d.path);
  auto train = open(all, SplitName::train, samples);
  examples_ = train->summary().samples;
  identity_["tokens in data.path"] = std::to_string(all->ids.size());
  identity_["data.allow_special"] = d.allow_special ? "true" : "false";
  identity_["data.add_special"] = d.add_special ? "true" : "false";
  identity_["data.packing"] = d.packing ? "true" : "false";
  identity_["training examples"] = std::to_string(train->summary().examples);
  train_ = std::move(train);
  if (config.eval.every > 0) {
    valid_ = open(d.validation.empty() ? all : examples(d.validation), SplitName::valid,
                  config.eval.batches * config.train.global_batch);
  }
}

std::vector<Batch> TrainingData::read(const BatchReader& reader, int64_t consumed_samples) {
  std::vector<Batch> batches;
  for (int64_t m = 0; m < plan_.accumulation(); ++m) {
    TokenBatch& buffer = buffers_[static_cast<size_t>(m)];
    reader.read(consumed_samples, m, buffer);
    batches.push_back(view_of(buffer));
  }
  return batches;
}

std::vector<Batch> TrainingData::training(int64_t consumed_samples) { return read(*train_reader_, consumed_samples); }

std::vector<Batch> TrainingData::validation(int64_t index) {
  PARTITA_CHECK(valid_reader_ != nullptr, "no validation data was asked for");
  return read(*valid_reader_, index * plan_.global_batch);
}

}  // namespace partita::internal
