#include "partita/data/token_windows.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"

namespace partita::internal {

TokenWindows::TokenWindows(std::shared_ptr<const IndexedDataset> tokens, int64_t sequence_length)
    : tokens_(std::move(tokens)), sequence_length_(sequence_length), begins_{0} {
  if (sequence_length < 1) fail("sequence length {}: at least 1 expected", sequence_length);
  begins_.reserve(static_cast<size_t>(tokens_->sequences()) + 1);
  for (int64_t s = 0; s < tokens_->sequences(); ++s) begins_.push_back(begins_.back() + tokens_->length(s));
  if (begins_.back() < 2) {
    fail("{}: {} tokens: at least 2 expected, one to read and one to predict", tokens_->prefix().string(),
         begins_.back());
  }
}

int64_t TokenWindows::size() const { return (begins_.back() - 1 + sequence_length_ - 1) / sequence_length_; }

void TokenWindows::read(int64_t k, const SampleSlots& out) const {
  if (k < 0 || k >= size()) fail("{}: window {} asked for, there are {}", tokens_->prefix().string(), k, size());
  const int64_t begin = k * sequence_length_, end = std::min(begin + sequence_length_ + 1, begins_.back());
  std::vector<int32_t> window(static_cast<size_t>(end - begin));
  // The last sequence that begins at or before `begin`, which skips empty sequences.
  int64_t sequence = std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin() - 1;
  for (int64_t at = begin; at < end; ++sequence) {
    const int64_t first = begins_[static_cast<size_t>(sequence)], last = begins_[static_cast<size_t>(sequence) + 1];
    const int64_t count = std::min(end, last) - at;
    tokens_->read(sequence, at - first,
                  std::span(window).subspan(static_cast<size_t>(at - begin), static_cast<size_t>(count)));
    at += count;
  }
  const auto inputs = static_cast<int64_t>(window.size()) - 1;
  std::copy_n(window.begin(), inputs, out.tokens.begin());
  std::copy_n(window.begin() + 1, inputs, out.labels.begin());
  std::iota(out.positions.begin(), out.positions.end(), 0);
  pad_from(out, inputs);
}

}  // namespace partita::internal
