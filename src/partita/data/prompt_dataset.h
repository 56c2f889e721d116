// Samples for finetuning: prompts with completions; only completions carry loss.
//
//   const auto examples = std::make_shared<const PromptExamples>(read_prompts("train.jsonl", *tokenizer, {}));
//   PromptDataset train(examples, {0, examples->size()}, {.sequence_length = 512, .samples = steps * global_batch});
//   log::info("{}", describe(train.summary()));
//   train.read(k, slots);                             // called by BatchReader
//
// A sample is one example or, with packing, several, followed by padding. Loss is masked by position, never by token,
// so a padding or end token inside a completion is learned like any other. Attention is causal: padding does not affect
// what precedes it.
//
// Every epoch has the same samples in a different order. Packing is done once, in an order shuffled with the seed.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "partita/base/enum_names.h"
#include "partita/data/packing.h"
#include "partita/data/prompt_examples.h"
#include "partita/data/sample_source.h"
#include "partita/data/split.h"

namespace partita {

// Handling of examples longer than a sample. cut: truncate the completion, or drop the example if its prompt alone
// fills the sample. skip: drop it.
enum class TooLong : uint8_t { error, cut, skip };
template <>
struct EnumNames<TooLong> {
  static constexpr std::array kNames = {"error", "cut", "skip"};
};

struct PromptDatasetSpec {
  int64_t sequence_length = 0;
  int64_t samples = 0;   // samples requested; 0: one epoch
  uint64_t seed = 1234;  // for packing and order
  bool shuffled = true;  // false: in file order (packed: in packing order)
  bool packed = false;   // several examples per sample
  TooLong too_long = TooLong::error;
  Documents documents = Documents::separate;  // for packed examples
};

// Contents of the samples of one epoch.
struct PromptSummary {
  int64_t examples = 0;  // examples used
  int64_t samples = 0;
  int64_t tokens = 0;            // inputs, without padding
  int64_t counted = 0;           // labels that carry loss
  int64_t cut = 0, skipped = 0;  // examples truncated; examples dropped
  int64_t sequence_length = 0;
};

class PromptDataset : public SampleSource {
 public:
  // The examples of one part of the file. Error: no examples in it, or none that fits; an example that is too long with
  // TooLong::error.
  PromptDataset(std::shared_ptr<const PromptExamples> examples, SequenceRange range, const PromptDatasetSpec& spec);

  // At least spec.samples, in whole epochs.
  [[nodiscard]] int64_t size() const override { return epochs_ * packing_.bins(); }
  [[nodiscard]] int64_t sequence_length() const override { return spec_.sequence_length; }
  // joined if no sample has more than one document.
  [[nodiscard]] Documents documents() const override { return spec_.packed ? spec_.documents : Documents::joined; }
  void read(int64_t k, const SampleSlots& out) const override;

  [[nodiscard]] const PromptSummary& summary() const { return summary_; }

 private:
  struct Kept {
    int64_t example, tokens;  // number of its tokens used
  };

  void fit(SequenceRange range);
  [[nodiscard]] int64_t bin_of(int64_t k) const;         // of sample k
  [[nodiscard]] int64_t slots_of(int64_t tokens) const;  // slots that an example of `tokens` tokens takes

  std::shared_ptr<const PromptExamples> examples_;
  PromptDatasetSpec spec_;
  std::vector<Kept> kept_;
  Packing packing_;  // of kept_ into samples
  int64_t epochs_ = 1;
  // Sample order of the epoch that was last read: it is a function of the epoch's number, so a run may have any length.
  mutable std::vector<int64_t> order_;
  mutable int64_t ordered_epoch_ = -1;
  std::unique_ptr<std::mutex> order_mutex_ = std::make_unique<std::mutex>();
  PromptSummary summary_;
};

// "1000 examples in 120 samples of 512 tokens, 8.1% of them padding; 20000 tokens count; 3 examples were cut"
[[nodiscard]] std::string describe(const PromptSummary& summary);

}  // namespace partita
