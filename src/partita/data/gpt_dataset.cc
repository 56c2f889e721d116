#include "partita/data/gpt_dataset.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/data/order_memory.h"

namespace partita {
using namespace internal;

namespace {

// What the order depends on. Of the token files, that is only the index.
std::string describe(const IndexedDataset& tokens, SequenceRange range, const GptIndexSpec& spec) {
  return fmt::format(
      "GPT samples of token files whose index has {} bytes, hash {}\nsequences {} to {}\nsequence length {}\n"
      "samples asked for {}\nseed {}\n",
      tokens.index_bytes().size(), content_hash(tokens.index_bytes()), range.begin, range.end, spec.sequence_length,
      spec.samples, spec.seed);
}

SharedArrays build(const IndexedDataset& tokens, SequenceRange range, const GptIndexSpec& spec) {
  std::vector<int32_t> lengths;
  lengths.reserve(static_cast<size_t>(range.size()));
  for (int64_t s = range.begin; s < range.end; ++s) lengths.push_back(static_cast<int32_t>(tokens.length(s)));
  const auto index = std::make_shared<const GptIndex>(build_gpt_index(range, lengths, spec));
  return {index,
          {std::as_bytes(std::span(index->sequences)), std::as_bytes(std::span(index->starts)),
           std::as_bytes(std::span(index->shuffle))}};
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> tokens, SequenceRange range, const GptIndexSpec& spec,
                       const Options& options)
    : tokens_(std::move(tokens)), sequence_length_(spec.sequence_length), documents_(options.documents) {
  for (int64_t s = range.begin; s < range.end; ++s) tokens_per_epoch_ += tokens_->length(s);
  add_part(range, spec, options.cache);
  for (const int64_t samples : options.prolonged) {
    if (samples <= size_) continue;
    GptIndexSpec more = spec;
    more.samples = samples - size_;
    more.seed += static_cast<uint32_t>(parts_.size());
    add_part(range, more, options.cache);
  }
}

void GptDataset::add_part(SequenceRange range, const GptIndexSpec& spec, const IndexCache& cache) {
  const EpochPlan plan =
      plan_epochs(spec, range.size(), tokens_per_epoch_);  // raises its errors before anything is written
  const auto make = [&] {
    announce_order({.name = spec.split,
                    .samples = plan.samples,
                    .epochs = plan.epochs,
                    .bytes = gpt_index_bytes(plan, range.size())});
    return build(*tokens_, range, spec);
  };
  const std::string description = cache.folder().empty() ? std::string() : describe(*tokens_, range, spec);
  const SharedArrays arrays = cache.get(spec.split, description, 3, make);
  const GptIndexView index{plan, arrays.as<int64_t>(0), arrays.as<TokenPosition>(1), arrays.as<int64_t>(2)};
  PARTITA_CHECK(index.size() == plan.samples && index.starts.size() == index.shuffle.size() + 1 &&
                    static_cast<int64_t>(index.sequences.size()) == plan.epochs * range.size(),
                "the order of {} has {} samples, {} expected", tokens_->prefix().string(), index.size(), plan.samples);
  parts_.push_back({size_, index, arrays.owner});
  size_ += index.size();
}

void GptDataset::read(int64_t k, const SampleSlots& out) const {
  if (k < 0 || k >= size()) fail("{}: sample {} asked for, there are {}", tokens_->prefix().string(), k, size());
  const auto row = static_cast<size_t>(sequence_length_);
  const bool separate = documents_ == Documents::separate;
  std::iota(out.positions.begin(), out.positions.end(), 0);
  std::vector<int32_t> sample(row + 1);
  auto part = parts_.rbegin();
  while (part->begin > k) ++part;
  const GptIndexView& index = part->index;
  const auto [first, last] = index.sample(k - part->begin);
  size_t at = 0;
  for (int64_t entry = first.entry; entry <= last.entry; ++entry) {
    const int64_t sequence = index.sequences[static_cast<size_t>(entry)];
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
