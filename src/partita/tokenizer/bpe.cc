#include "partita/tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "partita/base/error.h"
#include "partita/tokenizer/bpe_merger.h"
#include "partita/tokenizer/pretoken_cache.h"

namespace partita {
namespace {

class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const ByteLevelBpe& tokenizer) : tokenizer_(&tokenizer), merger_(tokenizer) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    const SplitPattern pattern = tokenizer_->options().pattern;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = pretoken_end(pattern, text, begin);
      encode_pretoken(text.substr(begin, end - begin), ids);
      begin = end;
    }
  }

 private:
  void encode_pretoken(std::string_view pretoken, std::vector<TokenId>& ids) {
    if (pretoken.size() > PretokenCache::kLongest) return merge(pretoken, ids);
    const uint64_t hash = PretokenCache::hash_of(pretoken);
    if (const auto known = cache_.find(pretoken, hash)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const size_t first = ids.size();
    merge(pretoken, ids);
    cache_.insert(pretoken, hash, std::span(ids).subspan(first));
  }

  void merge(std::string_view pretoken, std::vector<TokenId>& ids) {
    if (tokenizer_->options().ignore_merges) {
      if (const auto id = tokenizer_->find(pretoken)) return ids.push_back(*id);
    }
    merger_.merge(pretoken, ids);
  }

  const ByteLevelBpe* tokenizer_;
  BpeMerger merger_;
  PretokenCache cache_;
};

std::optional<TokenId> find_end_of_document(const BpeModel& model) {
  for (TokenId id : model.special) {
    if (model.tokens[static_cast<size_t>(id)] == "<|endoftext|>") return id;
  }
  if (model.special.size() == 1) return model.special[0];
  return std::nullopt;
}

BpeModel validated(BpeModel model, std::string_view origin) {
  validate(model, origin);
  return model;
}

}  // namespace

MergeTable::MergeTable(std::span<const BpeMerge> merges, MergeRank order) {
  slots_.resize(std::bit_ceil(std::max<size_t>(2 * merges.size(), 2)));
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t key = key_of(merges[rank].left, merges[rank].right);
    size_t slot = slot_of(key);
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
    const TokenId result = merges[rank].result;
    slots_[slot] = {key, {order == MergeRank::order ? static_cast<int32_t>(rank) : result, result}};
  }
}

ByteLevelBpe::ByteLevelBpe(BpeModel model, std::string_view origin, ByteLevelBpeOptions options)
    : model_(validated(std::move(model), origin)),
      options_(options),
      merges_(model_.merges, model_.rank),
      ids_(token_ids(model_)),
      end_of_document_(find_end_of_document(model_)) {
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = ids_.at(std::string(1, static_cast<char>(byte)));
}

std::optional<TokenId> ByteLevelBpe::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::unique_ptr<Encoder> ByteLevelBpe::make_encoder(const EncodeOptions&) const { return std::make_unique<BpeEncoder>(*this); }

std::string_view ByteLevelBpe::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return model_.tokens[static_cast<size_t>(id)];
}

}  // namespace partita
