// Samples for GPT training: L + 1 tokens each, from a part of a tokenized dataset, in a shuffled order.
//
//   const auto tokens = std::make_shared<const IndexedDataset>("data/text_document");
//   const auto range = split_range(parse_split("969,30,1"), SplitName::train, tokens->sequences());
//   GptDataset train(tokens, range, {.split = "train", .sequence_length = 1024, .samples = steps * global_batch});
//   train.read(k, slots);                             // BatchReader does
//
// A run that is prolonged keeps the order it has: what it was planned for stays the beginning, and behind the last
// sample of those epochs others follow, shuffled with the next seed. (Megatron-LM shuffles all epochs of a run
// together: more steps would give other samples from the first one on.)
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partita/data/gpt_index.h"
#include "partita/data/index_cache.h"
#include "partita/data/indexed_dataset.h"
#include "partita/data/sample_source.h"

namespace partita {

// Every token but a sample's last is an input, and the one behind it its label, also where that begins the next
// document: what follows the end of a document is the beginning of any. Of documents of several sequences each sequence
// counts as one, since the order of sequences is shuffled.
class GptDataset : public SampleSource {
 public:
  struct Options {
    Documents documents = Documents::joined;
    IndexCache cache;                // where the order is kept
    std::vector<int64_t> prolonged;  // samples of the whole, each time it was planned anew behind spec.samples
  };

  // Error: as plan_epochs.
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
             const Options& options);
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
             Documents documents = Documents::joined)
      : GptDataset(std::move(tokens), range, spec, Options{.documents = documents, .cache = {}, .prolonged = {}}) {}

  [[nodiscard]] int64_t size() const override { return size_; }  // at least all samples asked for
  [[nodiscard]] int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] Documents documents() const override { return documents_; }
  void read(int64_t k, const SampleSlots& out) const override;

  // The order as it was first planned.
  [[nodiscard]] const GptIndexView& index() const { return parts_[0].index; }

 private:
  struct Part {
    int64_t begin;  // its first sample's number
    GptIndexView index;
    std::shared_ptr<const void> owner;
  };
  void add_part(SequenceRange range, const GptIndexSpec& spec, const IndexCache& cache);

  std::shared_ptr<const IndexedDataset> tokens_;
  int64_t sequence_length_, tokens_per_epoch_ = 0, size_ = 0;
  Documents documents_;
  std::vector<Part> parts_;
};

}  // namespace partita
