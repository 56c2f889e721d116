#include "partita/data/gpt_dataset.h"

#include <numeric>
#include <vector>

#include "partita/base/error.h"

namespace partita {

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec)
    : tokens_(std::move(tokens)), sequence_length_(spec.sequence_length) {
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(range.size()));
  for (int64_t s = range.begin; s < range.end; ++s) lengths.push_back(static_cast<int32_t>(tokens_->length(s)));
  tokens_per_epoch_ = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  index_ = build_gpt_index(range, lengths, spec);
}

void GptDataset::read(int64_t k, std::span<int32_t> out) const {
  if (k < 0 || k >= size()) fail("{}: sample {} asked for, there are {}", tokens_->prefix().string(), k, size());
  PARTITA_CHECK(static_cast<int64_t>(out.size()) == sequence_length_ + 1, "room for {} tokens", out.size());
  const auto [first, last] = index_.sample(k);
  for (int64_t entry = first.entry; entry <= last.entry; ++entry) {
    const int64_t sequence = index_.sequences[static_cast<size_t>(entry)];
    const int64_t begin = entry == first.entry ? first.offset : 0;
    const int64_t end = entry == last.entry ? last.offset + 1 : tokens_->length(sequence);
    const auto count = static_cast<size_t>(end - begin);
    tokens_->read(sequence, begin, out.first(count));
    out = out.subspan(count);
  }
}

}  // namespace partita
