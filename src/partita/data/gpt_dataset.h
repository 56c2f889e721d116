// Samples for GPT training: L + 1 tokens each, from a part of a tokenized dataset, in a shuffled order.
//
//   const auto tokens = std::make_shared<const IndexedDataset>("data/text_document");
//   const auto range = split_range(parse_split("969,30,1"), SplitName::train, tokens->sequences());
//   const GptDataset train(tokens, range, {.split = "train", .sequence_length = 1024, .samples = steps * global_batch});
//   train.read(k, slots);                             // BatchReader does
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "partita/data/gpt_index.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/sample_source.h"

namespace partita {

// Every token but a sample's last is an input, and the one behind it its label, also where that begins the next document:
// what follows the end of a document is the beginning of any. Of documents of several sequences each sequence counts as
// one, since the order of sequences is shuffled.
class GptDataset : public SampleSource {
 public:
  // Error: as plan_epochs.
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
             Documents documents = Documents::joined);

  [[nodiscard]] int64_t size() const override { return index_.size(); }  // at least spec.samples
  [[nodiscard]] int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] Documents documents() const override { return documents_; }
  void read(int64_t k, const SampleSlots& out) const override;

  [[nodiscard]] int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  [[nodiscard]] const GptIndex& index() const { return index_; }

 private:
  std::shared_ptr<const IndexedDataset> tokens_;
  int64_t sequence_length_, tokens_per_epoch_ = 0;
  Documents documents_;
  GptIndex index_;
};

}  // namespace partita
