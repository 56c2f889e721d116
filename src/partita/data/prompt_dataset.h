// Samples for finetuning: prompts with completions, of which only the completions count.
//
//   const auto examples = std::make_shared<const PromptExamples>(read_prompts("train.jsonl", *tokenizer, {}));
//   PromptDataset train(examples, {0, examples->size()}, {.sequence_length = 512, .samples = steps * global_batch});
//   log::info("{}", describe(train.summary()));
//   train.read(k, slots);                             // BatchReader does
//
// A sample is one example or, packed, several, with padding behind them. What counts is decided by place and never by
// token, so that a padding or end token inside a completion is learnt like any other. Attention looks back only:
// padding changes nothing before it.
//
// Every epoch has the same samples, in an order of its own. Packing is done once, in an order shuffled by the seed.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "partita/data/packing.h"
#include "partita/data/prompt_examples.h"
#include "partita/data/sample_source.h"
#include "partita/data/split.h"

namespace partita {

// What becomes of an example longer than a sample. cut: the end of its completion is left out, and where the prompt
// alone fills the sample, all of it. skip: all of it.
enum class TooLong : uint8_t { error, cut, skip };

struct PromptDatasetSpec {
  int64_t sequence_length = 0;
  int64_t samples = 0;   // asked for; 0: those of one epoch
  uint64_t seed = 1234;  // of packing and order
  bool shuffled = true;  // false: in the order of the file (packed: of the packing)
  bool packed = false;   // several examples a sample
  TooLong too_long = TooLong::error;
  Documents documents = Documents::separate;  // of packed examples
};

// What the samples of one epoch hold.
struct PromptSummary {
  int64_t examples = 0;  // that are used
  int64_t samples = 0;
  int64_t tokens = 0;            // inputs, padding not among them
  int64_t counted = 0;           // labels
  int64_t cut = 0, skipped = 0;  // of the examples: cut at the end; left out
  int64_t sequence_length = 0;
};

class PromptDataset : public SampleSource {
 public:
  // The examples of a part of the file. Error: no examples in it, or none that fits; an example that is too long,
  // unless spec.too_long says what to do.
  PromptDataset(std::shared_ptr<const PromptExamples> examples, SequenceRange range, const PromptDatasetSpec& spec);

  // At least spec.samples: whole epochs.
  [[nodiscard]] int64_t size() const override { return epochs_ * packing_.bins(); }
  [[nodiscard]] int64_t sequence_length() const override { return spec_.sequence_length; }
  // Joined where no sample has more than one.
  [[nodiscard]] Documents documents() const override { return spec_.packed ? spec_.documents : Documents::joined; }
  void read(int64_t k, const SampleSlots& out) const override;

  [[nodiscard]] const PromptSummary& summary() const { return summary_; }

 private:
  struct Kept {
    int64_t example, tokens;  // as many of it as are used
  };

  void fit(SequenceRange range);
  [[nodiscard]] int64_t bin_of(int64_t k) const;         // that is sample k
  [[nodiscard]] int64_t slots_of(int64_t tokens) const;  // that an example of so many tokens takes

  std::shared_ptr<const PromptExamples> examples_;
  PromptDatasetSpec spec_;
  std::vector<Kept> kept_;
  Packing packing_;  // of kept_ into samples
  int64_t epochs_ = 1;
  // Of the samples of the epoch that was read last: an epoch's order is a function of its number, so that a run may be
  // of any length.
  mutable std::vector<int64_t> order_;
  mutable int64_t ordered_epoch_ = -1;
  std::unique_ptr<std::mutex> order_mutex_ = std::make_unique<std::mutex>();
  PromptSummary summary_;
};

// "1000 examples in 120 samples of 512 tokens, 8.1% of them padding; 20000 tokens count; 3 examples were cut"
[[nodiscard]] std::string describe(const PromptSummary& summary);

}  // namespace partita
