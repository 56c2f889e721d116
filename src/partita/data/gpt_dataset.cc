#include "partita/data/gpt_dataset.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "partita/base/error.h"

namespace partita {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
                       Documents documents)
    : tokens_(std::move(tokens)), sequence_length_(spec.sequence_length), documents_(documents) {
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(range.size()));
  for (int64_t s = range.begin; s < range.end; ++s) lengths.push_back(static_cast<int32_t>(tokens_->length(s)));
  tokens_per_epoch_ = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  index_ = build_gpt_index(range, lengths, spec);
}

void GptDataset::read(int64_t k, const SampleSlots& out) const {
  if (k < 0 || k >= size()) fail("{}: sample {} asked for, there are {}", tokens_->prefix().string(), k, size());
  const auto row = static_cast<size_t>(sequence_length_);
  const bool separate = documents_ == Documents::separate;
  std::iota(out.positions.begin(), out.positions.end(), 0);
  std::vector<int32_t> sample(row + 1);
  const auto [first, last] = index_.sample(k);
  size_t at = 0;
  for (int64_t entry = first.entry; entry <= last.entry; ++entry) {
    const int64_t sequence = index_.sequences[static_cast<size_t>(entry)];
    const int64_t begin = entry == first.entry ? first.offset : 0;
    const int64_t end = entry == last.entry ? last.offset + 1 : tokens_->length(sequence);
    const auto count = static_cast<size_t>(end - begin);
    tokens_->read(sequence, begin, std::span(sample).subspan(at, count));
    if (const size_t inputs = std::min(count, row - std::min(at, row)); separate && inputs > 0) {
      const auto positions = out.positions.subspan(at, inputs);
      std::iota(positions.begin(), positions.end(), 0);
      std::ranges::fill(out.first_keys.subspan(at, inputs), static_cast<int32_t>(at));
    }
    at += count;
  }
  std::copy_n(sample.begin(), row, out.tokens.begin());
  std::copy_n(sample.begin() + 1, row, out.labels.begin());
}

}  // namespace partita
