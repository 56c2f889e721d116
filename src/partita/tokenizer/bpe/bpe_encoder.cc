#include "partita/tokenizer/bpe/bpe_encoder.h"

#include "partita/tokenizer/bpe/bpe.h"

namespace partita::internal {

BpeEncoder::BpeEncoder(const ByteLevelBpe& tokenizer)
    : tokenizer_(&tokenizer), scanner_(tokenizer.options().pattern), merger_(tokenizer.merges()) {}

void BpeEncoder::encode(std::string_view text, std::vector<TokenId>& ids) {
  for (size_t begin = 0; begin < text.size();) {
    const PretokenScanner::Window window = scanner_.scan(text, begin);
    if (window.bounds.empty()) {
      const auto found = merge(text.substr(begin, window.next - begin));
      ids.insert(ids.end(), found.begin(), found.end());
    } else {
      encode_window(window, ids);
    }
    begin = window.next;
  }
}

void BpeEncoder::encode_window(const PretokenScanner::Window& window, std::vector<TokenId>& ids) {
  cache_.tidy();
  const size_t bytes = window.bounds.back();
  // At least one byte per token; some elements past the end are written and then overwritten.
  if (found_.size() < bytes + IdCache::kInlineIds) found_.resize(bytes + IdCache::kInlineIds);
  TokenId* out = found_.data();
  const uint32_t* bounds = window.bounds.data();
  const size_t count = window.bounds.size() - 1;
  // Software pipeline over batches of kBatch pretokens, double-buffered in lookups[batch % 2]:
  //   iteration      0         1         2
  //   prepare        batch 1   batch 2   batch 3     start lookups, which prefetch their cache sets
  //   read           batch 0   batch 1   batch 2     the sets have arrived in cache by now
  IdCache::Lookup lookups[2][kBatch];
  const auto prepare = [&](size_t first, IdCache::Lookup* started) {
    const size_t many = std::min(count - first, kBatch);
    for (size_t i = 0; i < many; ++i) {
      const size_t length = bounds[first + i + 1] - bounds[first + i];
      started[i] = cache_.start(window.base + bounds[first + i], length, PretokenScanner::kRoom);
    }
  };
  const auto merged = [this](std::string_view pretoken) { return merge(pretoken); };
  prepare(0, lookups[0]);
  for (size_t first = 0, batch = 0; first < count; first += kBatch, ++batch) {
    if (first + kBatch < count) prepare(first + kBatch, lookups[(batch + 1) % 2]);
    const size_t many = std::min(count - first, kBatch);
    const IdCache::Lookup* lookup = lookups[batch % 2];
    for (size_t i = 0; i < many; ++i, ++lookup) {
      const size_t length = bounds[first + i + 1] - bounds[first + i];
      if (const auto* entry = IdCache::quick_find(*lookup, length)) {
        out = cache_.copy_ids(*entry, out);
      } else {
        const auto found = cache_.find_or_add({window.base + bounds[first + i], length}, *lookup, merged);
        out = std::copy(found.begin(), found.end(), out);
      }
    }
  }
  ids.insert(ids.end(), found_.data(), out);
}

std::span<const TokenId> BpeEncoder::merge(std::string_view pretoken) {
  merged_.clear();
  std::optional<TokenId> whole;
  if (tokenizer_->options().ignore_merges) whole = tokenizer_->find(pretoken);
  if (whole) {
    merged_.push_back(*whole);
  } else {
    merger_.merge(pretoken, merged_);
  }
  return merged_;
}

}  // namespace partita::internal
