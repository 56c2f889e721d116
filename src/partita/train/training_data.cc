#include "partita/train/training_data.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/data/prompt_dataset.h"
#include "partita/train/token_samples.h"

namespace partita::internal {

TrainingData::TrainingData(const Config& config, int rank, int ranks, RunPosition position, int checker, int checkers,
                           const ContextSplit& context)
    : global_batch_(config.train.global_batch) {
  const BatchSizes sizes{.global_batch = global_batch_, .micro_batch = config.train.micro_batch, .context = context};
  const int64_t steps_left = std::max<int64_t>(config.train.steps - position.step, 0);
  const int64_t samples = position.consumed_samples + steps_left * config.train.global_batch;
  planned_ = std::move(position.planned_samples);
  if (planned_.empty() || planned_.back() < samples) planned_.push_back(samples);
  if (config.data.format == DataFormat::prompts)
    open_prompts(config, planned_.back(), checker == 0);
  else
    open_tokens(config, checker, checkers);
  train_loader_.emplace(std::move(train_), sizes, rank, ranks);
  if (valid_) valid_loader_.emplace(std::move(valid_), sizes, rank, ranks);
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

std::vector<Batch> TrainingData::training(int64_t consumed_samples) { return train_loader_->read(consumed_samples); }

std::vector<Batch> TrainingData::validation(int64_t index) {
  PARTITA_CHECK(valid_loader_.has_value(), "no validation data was asked for");
  return valid_loader_->read(index * global_batch_);
}

}  // namespace partita::internal
