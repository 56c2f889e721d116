#include "partita/tokenizer/bpe/bpe_encoder.h"

#include "partita/tokenizer/bpe/bpe.h"

namespace partita::internal {
namespace {

constexpr size_t kSlack = ShortPretokens::kInlineIds + 1;  // ids written past the end, then overwritten

}  // namespace

BpeEncoder::BpeEncoder(const ByteLevelBpe& tokenizer)
    : tokenizer_(&tokenizer), scanner_(tokenizer.options().pattern), merger_(tokenizer.merges()) {}

void BpeEncoder::encode(std::string_view text, std::vector<TokenId>& ids) {
  for (size_t begin = 0; begin < text.size();) {
    const PretokenScanner::Window window = scanner_.scan(text, begin);
    if (window.bounds.empty()) {
      const auto found = encode_long(text.substr(begin, window.next - begin));
      ids.insert(ids.end(), found.begin(), found.end());
    } else {
      encode_window(window, ids);
    }
    begin = window.next;
  }
}

void BpeEncoder::encode_window(const PretokenScanner::Window& window, std::vector<TokenId>& ids) {
  short_.tidy();
  const size_t bytes = window.bounds.back();
  if (found_.size() < bytes + kSlack + 1) found_.resize(bytes + kSlack + 1);  // at least one byte per token
  TokenId* out = found_.data();
  const uint32_t* bounds = window.bounds.data();
  const size_t count = window.bounds.size() - 1;
  // Software pipeline over batches of kBatch pretokens, double-buffered in lookups[batch % 2]:
  //   iteration      0         1         2
  //   prepare        batch 1   batch 2   batch 3     compute keys, prefetch their cache sets
  //   read           batch 0   batch 1   batch 2     the sets have arrived in cache by now
  struct Lookup {
    ShortPretokens::Key key;
    ShortPretokens::Entry* set;
  } lookups[2][kBatch];
  const auto prepare = [&](size_t first, Lookup* made) {
    const size_t many = std::min(count - first, kBatch);
    for (size_t i = 0; i < many; ++i) {
      const size_t length = bounds[first + i + 1] - bounds[first + i];
      made[i].key = ShortPretokens::key_of(window.base + bounds[first + i], std::min(length, ShortPretokens::kLongest));
      made[i].set = short_.set_of(made[i].key);
      __builtin_prefetch(made[i].set);
    }
  };
  prepare(0, lookups[0]);
  for (size_t first = 0, batch = 0; first < count; first += kBatch, ++batch) {
    if (first + kBatch < count) prepare(first + kBatch, lookups[(batch + 1) % 2]);
    const size_t many = std::min(count - first, kBatch);
    const Lookup* lookup = lookups[batch % 2];
    for (size_t i = 0; i < many; ++i, ++lookup) {
      const size_t length = bounds[first + i + 1] - bounds[first + i];
      const auto& entry = ShortPretokens::candidate(lookup->set, lookup->key);
      if (length <= ShortPretokens::kLongest && entry.key == lookup->key) {
        if (entry.count <= ShortPretokens::kInlineIds) {
          std::memcpy(out, entry.ids, sizeof entry.ids);
        } else {
          std::copy_n(short_.ids_of(entry), entry.count, out);
        }
        out += entry.count;
      } else {
        const auto found = encode_miss({window.base + bounds[first + i], length}, lookup->set, lookup->key);
        out = std::copy(found.begin(), found.end(), out);
      }
    }
  }
  ids.insert(ids.end(), found_.data(), out);
}

std::span<const TokenId> BpeEncoder::encode_miss(std::string_view pretoken, ShortPretokens::Entry* set,
                                                 const ShortPretokens::Key& key) {
  if (pretoken.size() > ShortPretokens::kLongest) return encode_long(pretoken);
  const auto* entry = ShortPretokens::find(set, key);
  if (entry != nullptr) return {short_.ids_of(*entry), entry->count};
  const auto found = merge(pretoken);
  short_.insert(set, key, found);
  return found;
}

std::span<const TokenId> BpeEncoder::encode_long(std::string_view pretoken) {
  if (pretoken.size() > PretokenCache::kLongest) return merge(pretoken);
  const uint64_t hash = PretokenCache::hash_of(pretoken);
  if (const auto known = others_.find(pretoken, hash)) return *known;
  const auto found = merge(pretoken);
  others_.insert(pretoken, hash, found);
  return found;
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
