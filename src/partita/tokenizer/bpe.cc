#include "partita/tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "partita/base/error.h"
#include "partita/tokenizer/bpe_merger.h"
#include "partita/tokenizer/gpt2_split.h"
#include "partita/tokenizer/pretoken_cache.h"

namespace partita {
namespace {

class BpeEncoder final : public Encoder {
 public:
  explicit BpeEncoder(const ByteLevelBpe& tokenizer) : merger_(tokenizer) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = gpt2_pretoken_end(text, begin);
      encode_pretoken(text.substr(begin, end - begin), ids);
      begin = end;
    }
  }

 private:
  void encode_pretoken(std::string_view pretoken, std::vector<TokenId>& ids) {
    if (pretoken.size() > PretokenCache::kLongest) return merger_.merge(pretoken, ids);
    const uint64_t hash = PretokenCache::hash_of(pretoken);
    if (const auto known = cache_.find(pretoken, hash)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const size_t first = ids.size();
    merger_.merge(pretoken, ids);
    cache_.insert(pretoken, hash, std::span(ids).subspan(first));
  }

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

MergeTable::MergeTable(std::span<const BpeMerge> merges) {
  slots_.resize(std::bit_ceil(std::max<size_t>(2 * merges.size(), 2)));
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t key = key_of(merges[rank].left, merges[rank].right);
    size_t slot = slot_of(key);
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
    slots_[slot] = {key, {static_cast<int32_t>(rank), merges[rank].result}};
  }
}

ByteLevelBpe::ByteLevelBpe(BpeModel model, std::string_view origin)
    : model_(validated(std::move(model), origin)),
      merges_(model_.merges),
      end_of_document_(find_end_of_document(model_)) {
  const auto ids = token_ids(model_);
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_[byte] = ids.at(std::string(1, static_cast<char>(byte)));
}

std::unique_ptr<Encoder> ByteLevelBpe::make_encoder() const { return std::make_unique<BpeEncoder>(*this); }

std::string_view ByteLevelBpe::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return model_.tokens[static_cast<size_t>(id)];
}

}  // namespace partita
