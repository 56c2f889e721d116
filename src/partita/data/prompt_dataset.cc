#include "partita/data/prompt_dataset.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

// Epoch number for the packing order, which no real epoch uses.
constexpr int64_t kPackingEpoch = -1;

std::vector<int64_t> in_order(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

PromptDataset::PromptDataset(std::shared_ptr<const PromptExamples> examples, SequenceRange range,
                             const PromptDatasetSpec& spec)
    : examples_(std::move(examples)), spec_(spec) {
  if (spec.sequence_length < 1) fail("sequence length {}: at least 1 expected", spec.sequence_length);
  PARTITA_CHECK(0 <= range.begin && range.end <= examples_->size(), "examples {} to {} of {}", range.begin, range.end,
                examples_->size());
  if (range.size() <= 0) {
    fail("{}: the split leaves none of {} examples: give it a higher weight", examples_->file.string(),
         examples_->size());
  }
  fit(range);
  const auto count = static_cast<int64_t>(kept_.size());
  if (count == 0) {
    fail("{}: none of {} examples fits into {} tokens: raise the sequence length", examples_->file.string(),
         range.size(), spec.sequence_length);
  }
  std::vector<int64_t> slots;
  for (const Kept& k : kept_) slots.push_back(slots_of(k.tokens));
  packing_ = spec.packed ? pack_first_fit(slots, spec.sequence_length, epoch_order(count, spec.seed, kPackingEpoch))
                         : Packing{.items = in_order(count), .begins = in_order(count + 1)};
  epochs_ = std::max<int64_t>(1, (spec.samples + packing_.bins() - 1) / packing_.bins());
  summary_.examples = count;
  summary_.samples = packing_.bins();
  summary_.tokens = std::accumulate(slots.begin(), slots.end(), int64_t{0});
  summary_.sequence_length = spec.sequence_length;
}

// A sample fits one token more than its length, because the last token is a label but not an input.
void PromptDataset::fit(SequenceRange range) {
  const int64_t room = spec_.sequence_length + 1;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const auto whole = static_cast<int64_t>(examples_->tokens(i).size());
    const int64_t prompt = examples_->prompt_tokens[static_cast<size_t>(i)];
    const int64_t tokens = std::min(whole, room);
    const int64_t counted = counted_tokens(tokens, prompt);
    if (whole > room && spec_.too_long == TooLong::error) {
      fail("{}: example {} has {} tokens, {} fit: raise train.sequence_length, or set data.too_long to cut or skip",
           examples_->file.string(), i + 1, whole, room);
    }
    if (counted == 0 || (whole > room && spec_.too_long == TooLong::skip)) {
      ++summary_.skipped;
      continue;
    }
    if (whole > room) ++summary_.cut;
    summary_.counted += counted;
    kept_.push_back({i, tokens});
  }
}

// If examples attend to each other, an example's last token is an input of the next one.
int64_t PromptDataset::slots_of(int64_t tokens) const {
  const bool end_is_seen = spec_.packed && spec_.documents == Documents::joined;
  return end_is_seen ? std::min(tokens, spec_.sequence_length) : tokens - 1;
}

int64_t PromptDataset::bin_of(int64_t k) const {
  const int64_t bins = packing_.bins(), epoch = k / bins;
  if (!spec_.shuffled) return k % bins;
  const std::lock_guard lock(*order_mutex_);
  if (epoch != ordered_epoch_) order_ = epoch_order(bins, spec_.seed, epoch);
  ordered_epoch_ = epoch;
  return order_[static_cast<size_t>(k % bins)];
}

void PromptDataset::read(int64_t k, const SampleSlots& out) const {
  if (k < 0 || k >= size()) fail("{}: sample {} asked for, there are {}", examples_->file.string(), k, size());
  std::iota(out.positions.begin(), out.positions.end(), 0);
  int64_t at = 0;
  for (const int64_t item : packing_.bin(bin_of(k))) {
    const Kept& kept = kept_[static_cast<size_t>(item)];
    const std::span<const TokenId> tokens = examples_->tokens(kept.example);
    const int64_t prompt = examples_->prompt_tokens[static_cast<size_t>(kept.example)];
    const int64_t slots = slots_of(kept.tokens);
    for (int64_t t = 0; t < slots; ++t) {
      const auto slot = static_cast<size_t>(at + t), next = static_cast<size_t>(t + 1);
      const bool counts = t + 1 < kept.tokens && t + 1 >= prompt;
      out.tokens[slot] = tokens[static_cast<size_t>(t)];
      out.labels[slot] = counts ? tokens[next] : kIgnoredLabel;
      if (documents() == Documents::separate) {
        out.positions[slot] = static_cast<int32_t>(t);
        out.first_keys[slot] = static_cast<int32_t>(at);
      }
    }
    at += slots;
  }
  pad_from(out, at);
}

std::string describe(const PromptSummary& s) {
  const double padding = 1 - static_cast<double>(s.tokens) / static_cast<double>(s.samples * s.sequence_length);
  std::string text = fmt::format("{} examples in {} samples of {} tokens, {:.1f}% of them padding; {} tokens count",
                                 s.examples, s.samples, s.sequence_length, 100 * padding, s.counted);
  if (s.cut > 0) text += fmt::format("; {} examples were cut", s.cut);
  if (s.skipped > 0) text += fmt::format("; {} too long were left out", s.skipped);
  return text;
}

}  // namespace partita
