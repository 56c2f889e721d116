// A run's data as micro-batches for training and validation: token files, or prompts with completions.
//
//   TrainingData data(config, rank, ranks);
//   std::vector<Batch> batches = data.training(consumed_samples);    // this rank's micro-batches of one step
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/config/config.h"
#include "partita/train/batch_loader.h"

namespace partita::internal {

// Progress of a run.
struct RunPosition {
  int64_t step = 0, consumed_samples = 0;
  std::vector<int64_t>
      planned_samples;  // of the whole run, one entry each time it was planned: TrainingData::planned_samples()
};

class TrainingData {
 public:
  // Data for the steps after `position`. rank, ranks: data-parallel. checker, checkers: this rank among all ranks of
  // the job, which share the checks of the files; the first one logs warnings. context: which pieces of each sample
  // this rank takes. Errors: missing or damaged files; a split with less than one sample of tokens, or without
  // examples; those of PromptDataset.
  TrainingData(const Config&, int rank, int ranks, RunPosition position = {}, int checker = 0, int checkers = 1,
               const ContextSplit& context = {});

  // This rank's micro-batches of the step that starts after `consumed_samples`. The batches are views of buffers that
  // the next call overwrites.
  [[nodiscard]] std::vector<Batch> training(int64_t consumed_samples);
  // Global batch number `index` of validation: the same samples in every evaluation.
  [[nodiscard]] std::vector<Batch> validation(int64_t index);

  // Planned length of the whole run in samples, at the start and after each extension. Pass it on resume, so that the
  // samples stay the same.
  [[nodiscard]] const std::vector<int64_t>& planned_samples() const { return planned_; }
  [[nodiscard]] int64_t examples() const { return examples_; }  // training samples of one epoch
  // Named properties that must not change for a resumed run to read the same samples.
  [[nodiscard]] const std::map<std::string, std::string>& identity() const { return identity_; }

 private:
  void open_tokens(const Config&, int rank, int ranks);
  void open_prompts(const Config&, int64_t samples, bool warns);

  int64_t global_batch_;
  std::unique_ptr<SampleSource> train_, valid_;  // until the loaders have them
  std::optional<BatchLoader> train_loader_, valid_loader_;
  std::vector<int64_t> planned_;
  int64_t examples_ = 0;
  std::map<std::string, std::string> identity_;
};

}  // namespace partita::internal
