// The token files of a run as micro-batches of training and validation.
//
//   TrainingData data(config, rank, ranks);
//   std::vector<Batch> batches = data.training(consumed_samples);    // this rank's micro-batches of one step
#pragma once
#include <memory>
#include <vector>

#include "partita/data/batch_reader.h"
#include "partita/nn/block.h"
#include "partita/train/config.h"

namespace partita {

class TrainingData {
 public:
  // Errors: missing or damaged files; a split with fewer tokens than a sample.
  TrainingData(const Config&, int rank, int ranks);

  // This rank's micro-batches of the step that begins behind `consumed_samples`. Views of buffers that the next call
  // overwrites.
  [[nodiscard]] std::vector<Batch> training(int64_t consumed_samples);
  // Global batch number `index` of validation: the same samples in every evaluation.
  [[nodiscard]] std::vector<Batch> validation(int64_t index);

  [[nodiscard]] int64_t examples() const { return examples_; }  // training samples of one epoch
  [[nodiscard]] int64_t tokens() const { return tokens_; }      // of the token files

 private:
  [[nodiscard]] std::vector<Batch> read(const BatchReader&, int64_t consumed_samples);

  BatchPlan plan_;
  std::unique_ptr<GptDataset> train_, valid_;
  std::unique_ptr<BatchReader> train_reader_, valid_reader_;
  std::vector<TokenBatch> buffers_;  // one a micro-batch
  int64_t examples_ = 0, tokens_ = 0;
};

}  // namespace partita
