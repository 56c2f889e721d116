// Which tokens make sample k: Megatron-LM's GPT sample index (gpt_dataset.py, helpers.cpp), as pure functions.
//
//   const GptIndex index = build_gpt_index(range, lengths, {.split = "train", .sequence_length = 1024,
//                                                           .samples = 100'000, .seed = 1234});
//   auto [first, last] = index.sample(k);     // from where to where, inclusive
//
// The sequences of the split are repeated for as many epochs as the samples need, shuffled, and laid end to end;
// neighbouring samples share one token (inputs are tokens 0 .. L-1, labels 1 .. L). A last epoch of which little is
// used (under 80 % of its samples) is shuffled by itself, so that the epochs before it are seen whole. One
// numpy.random.RandomState(seed) draws the order of sequences, then that of samples: same seed, same order as Megatron.
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
  int64_t samples = 0;          // asked for; 0: those of one epoch
  uint32_t seed = 1234;
};

// How often the sequences are repeated, and how the samples divide over the epochs.
struct EpochPlan {
  int64_t epochs = 1;
  bool separate_last = false;       // shuffled by itself
  int64_t samples = 0;              // all that the epochs hold: at least what was asked for
  int64_t samples_before_last = 0;  // that fit whole in the epochs before the last

  bool operator==(const EpochPlan&) const = default;
};

// Error: fewer tokens than one sample takes; more samples than can be counted. Names the split, its tokens and the
// samples asked for.
[[nodiscard]] EpochPlan plan_epochs(const GptIndexSpec& spec, int64_t sequences, int64_t tokens);

// Bytes of the index; 2^62 where they are more. Pure.
[[nodiscard]] int64_t gpt_index_bytes(const EpochPlan&, int64_t sequences);

struct TokenPosition {
  int64_t entry;   // in GptIndex::sequences
  int64_t offset;  // in that sequence, in tokens

  bool operator==(const TokenPosition&) const = default;
};

// The order, wherever it lies.
struct GptIndexView {
  EpochPlan plan;
  std::span<const int64_t> sequences;     // ids in the dataset, epochs x range.size()
  std::span<const TokenPosition> starts;  // of each sample, in order; one more for the end
  std::span<const int64_t> shuffle;       // sample k is number shuffle[k] of `starts`

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(shuffle.size()); }
  struct Range {
    TokenPosition first, last;  // of its L + 1 tokens; the last token is the next sample's first
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

// lengths: tokens of each sequence in the range, range.size() of them.
[[nodiscard]] GptIndex build_gpt_index(SequenceRange range, std::span<const int32_t> lengths, const GptIndexSpec& spec);

}  // namespace partita
