#include "partita/tokenizer/bpe/merge_table.h"

#include <algorithm>
#include <bit>

#include "partita/base/error.h"

namespace partita::internal {

MergeTable::MergeTable(const BpeModel& model, const std::array<TokenId, 256>& byte_tokens)
    : byte_tokens_(byte_tokens), byte_ranks_(size_t{1} << 16), joins_(size_t{1} << 16) {
  const auto& merges = model.merges;
  // One more than the highest id, so that no pair equals an empty slot.
  id_bits_ = static_cast<int>(std::bit_width(static_cast<uint64_t>(model.vocab_size())));
  const uint64_t most = std::max<uint64_t>(merges.size(), static_cast<uint64_t>(model.vocab_size()));
  rank_bits_ = std::min(64 - 2 * id_bits_, 32);
  if (rank_bits_ < static_cast<int>(std::bit_width(most))) {
    fail("a vocabulary of {} tokens and {} merges: byte-level BPE takes 2 million of each", model.vocab_size(),
         merges.size());
  }
  slots_.assign(std::bit_ceil(std::max<size_t>(2 * merges.size(), 2)), kEmpty);
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t place = 0; place < merges.size(); ++place) {
    const BpeMerge& merge = merges[place];
    const uint64_t key = key_of(merge.left, merge.right);
    size_t slot = slot_of(key);
    while (slots_[slot] != kEmpty && slots_[slot] >> rank_bits_ != key) slot = (slot + 1) & mask_;
    const auto its_rank = model.rank == MergeRank::order ? place : static_cast<size_t>(merge.result);
    slots_[slot] = key << rank_bits_ | its_rank;
    ranks_ = std::max(ranks_, its_rank + 1);
    if (model.rank == MergeRank::order) results_.push_back(merge.result);
    const std::string &left = model.tokens[static_cast<size_t>(merge.left)],
                      &right = model.tokens[static_cast<size_t>(merge.right)];
    if (!left.empty() && !right.empty()) joins_[pair_of(left.back(), right.front())] = true;
  }
  for (int left = 0; left < 256; ++left) {
    for (int right = 0; right < 256; ++right) {
      const auto l = static_cast<char>(left), r = static_cast<char>(right);
      byte_ranks_[pair_of(l, r)] = rank(byte_token(l), byte_token(r));
    }
  }
}

}  // namespace partita::internal
