// Maps sample k to its tokens: Megatron-LM's GPT sample index (gpt_dataset.py, helpers.cpp), as pure functions.
//
//   const GptIndex index = build_gpt_index(range, lengths, {.split = "train", .sequence_length = 1024,
//                                                           .samples = 100'000, .seed = 1234});
//   auto [first, last] = index.sample(k);     // positions of the first and last token, inclusive
//
// The sequences of the split are repeated for as many epochs as the samples need, shuffled, and concatenated; adjacent
// samples share one token (inputs are tokens 0 .. L-1, labels 1 .. L). If little of the last epoch is used (under 80%
// of its samples), it is shuffled separately, so that the epochs before it are seen completely. One
// numpy.random.RandomState(seed) draws the order of sequences, then that of samples: the same seed gives the same order
// as Megatron.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partita/data/split.h"

namespace partita {

struct GptIndexSpec {
  std::string split = "train";  // for messages
  int64_t sequence_length = 0;  // L; a sample has L + 1 tokens
  int64_t samples = 0;          // samples requested; 0: one epoch
  uint32_t seed = 1234;
};

// Number of epochs, and how the samples are divided among them.
struct EpochPlan {
  int64_t epochs = 1;
  bool separate_last = false;       // shuffle the last epoch separately
  int64_t samples = 0;              // in all epochs; at least the number requested
  int64_t samples_before_last = 0;  // that fit completely in the epochs before the last

  bool operator==(const EpochPlan&) const = default;
};

// Error: fewer tokens than one sample needs; too many samples to count. Names the split, its tokens and the samples
// requested.
[[nodiscard]] EpochPlan plan_epochs(const GptIndexSpec& spec, int64_t sequences, int64_t tokens);

// Bytes of the index, capped at 2^62. Pure.
[[nodiscard]] int64_t gpt_index_bytes(const EpochPlan&, int64_t sequences);

struct TokenPosition {
  int64_t entry;   // index into GptIndex::sequences
  int64_t offset;  // tokens into that sequence

  bool operator==(const TokenPosition&) const = default;
};

// A view of the order, wherever it is stored.
struct GptIndexView {
  EpochPlan plan;
  std::span<const int64_t> sequences;     // ids in the dataset; epochs x range.size() of them
  std::span<const TokenPosition> starts;  // of each sample, unshuffled; one more for the end
  std::span<const int64_t> shuffle;       // sample k is at starts[shuffle[k]]

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(shuffle.size()); }
  struct Range {
    TokenPosition first, last;  // first and last of its L + 1 tokens; the last is also the next sample's first
  };
  [[nodiscard]] Range sample(int64_t k) const {
    const auto i = static_cast<size_t>(shuffle[static_cast<size_t>(k)]);
    return {starts[i], starts[i + 1]};
  }
};

struct GptIndex {
  EpochPlan plan;
  std::vector<int64_t> sequences;
  std::vector<TokenPosition> starts;
  std::vector<int64_t> shuffle;

  [[nodiscard]] GptIndexView view() const { return {plan, sequences, starts, shuffle}; }
  [[nodiscard]] int64_t size() const { return view().size(); }
  [[nodiscard]] GptIndexView::Range sample(int64_t k) const { return view().sample(k); }
};

// lengths: tokens of each of the range.size() sequences.
[[nodiscard]] GptIndex build_gpt_index(SequenceRange range, std::span<const int32_t> lengths, const GptIndexSpec& spec);

}  // namespace partita
