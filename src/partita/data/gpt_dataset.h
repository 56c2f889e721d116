// Samples for GPT training: L + 1 tokens each, from one split of a tokenized dataset, in shuffled order.
//
//   const auto tokens = std::make_shared<const IndexedDataset>("data/text_document");
//   const auto range = split_range(parse_split("969,30,1"), SplitName::train, tokens->sequences());
//   GptDataset train(tokens, range, {.split = "train", .sequence_length = 1024, .samples = steps * global_batch});
//   train.read(k, slots);                             // called by BatchReader
//
// Extending a run preserves its order: the originally planned epochs stay the beginning, and further epochs follow,
// shuffled with the next seed. (Megatron-LM shuffles all epochs of a run together, so more steps would change the
// samples from the first one on.)
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

// Every token but a sample's last is an input, and the next token is its label, even if it begins the next document:
// any document may follow the end of another. In documents of several sequences each sequence counts as a document,
// because the order of sequences is shuffled.
class GptDataset : public SampleSource {
 public:
  struct Options {
    Documents documents = Documents::joined;
    IndexCache cache;                // stores the order
    std::vector<int64_t> prolonged;  // total samples at each extension, after spec.samples
  };

  // Errors: as plan_epochs.
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
             const Options& options);
  GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
             Documents documents = Documents::joined)
      : GptDataset(std::move(tokens), range, spec, Options{.documents = documents, .cache = {}, .prolonged = {}}) {}

  [[nodiscard]] int64_t size() const override { return size_; }  // at least the number of samples requested
  [[nodiscard]] int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] Documents documents() const override { return documents_; }
  void read(int64_t k, const SampleSlots& out) const override;

  // The order as originally planned.
  [[nodiscard]] const GptIndexView& index() const { return parts_[0].index; }

 private:
  struct Part {
    int64_t begin;  // index of its first sample
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
