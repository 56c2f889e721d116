#include "partita/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

#include "partita/base/error.h"

namespace partita {

MergeTable::MergeTable(std::span<const BpeMerge> merges, MergeRank rank, int64_t vocab_size) {
  // An id more than there are, so that no pair looks like an empty slot.
  id_bits_ = std::bit_width(static_cast<uint64_t>(vocab_size));
  const uint64_t most = std::max<uint64_t>(merges.size(), static_cast<uint64_t>(vocab_size));
  rank_bits_ = std::min(64 - 2 * id_bits_, 32);
  if (rank_bits_ < static_cast<int>(std::bit_width(most))) {
    fail("a vocabulary of {} tokens and {} merges: byte-level BPE takes 2 million of each", vocab_size, merges.size());
  }
  slots_.assign(std::bit_ceil(std::max<size_t>(2 * merges.size(), 2)), kEmpty);
  mask_ = slots_.size() - 1;
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t place = 0; place < merges.size(); ++place) {
    const BpeMerge& merge = merges[place];
    const uint64_t key = key_of(merge.left, merge.right);
    size_t slot = slot_of(key);
    while (slots_[slot] != kEmpty && slots_[slot] >> rank_bits_ != key) slot = (slot + 1) & mask_;
    slots_[slot] = key << rank_bits_ |
                   (rank == MergeRank::order ? static_cast<uint64_t>(place) : static_cast<uint64_t>(merge.result));
    if (rank == MergeRank::order) results_.push_back(merge.result);
  }
}

}  // namespace partita
