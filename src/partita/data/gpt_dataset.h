// Samples for GPT training: L + 1 tokens each, from a part of a tokenized dataset, in a shuffled order.
//
//   const auto tokens = std::make_shared<const IndexedDataset>("data/text_document");
//   const auto range = split_range(parse_split("969,30,1"), SplitName::train, tokens->sequences());
//   const GptDataset train(tokens, range, {.split = "train", .sequence_length = 1024, .samples = steps * global_batch});
//   std::vector<int32_t> sample(1025);
//   train.read(consumed_samples, sample);        // thread-safe
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "partita/data/gpt_index.h"
#include "partita/data/indexed_dataset.h"

namespace partita {

class GptDataset {
 public:
  // Error: as plan_epochs.
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec);

  [[nodiscard]] int64_t size() const { return index_.size(); }  // samples: at least spec.samples
  [[nodiscard]] int64_t sequence_length() const { return sequence_length_; }
  [[nodiscard]] int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  [[nodiscard]] const GptIndex& index() const { return index_; }

  // Copies the sequence_length() + 1 tokens of sample k. Error: k outside 0 .. size()-1.
  void read(int64_t k, std::span<int32_t> out) const;

 private:
  std::shared_ptr<const IndexedDataset> tokens_;
  int64_t sequence_length_, tokens_per_epoch_ = 0;
  GptIndex index_;
};

}  // namespace partita
