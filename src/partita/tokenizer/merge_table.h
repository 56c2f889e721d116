// The ranks of pairs of tokens: the lookup that merging spends its time on.
//
//   const MergeTable table(model.merges, model.rank, model.vocab_size());
//   if (const uint32_t rank = table.rank(left, right); rank != MergeTable::kNone) token = table.result(rank);
//
// Flat open addressing, both tokens and their rank in eight bytes: GPT-2's 50000 merges take 1 MB, which stays in a
// core's second cache.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "partita/tokenizer/bpe_model.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

class MergeTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // Of a pair that stands in `merges` twice the last counts. Error: more tokens than two of them and a rank have bits.
  MergeTable(std::span<const BpeMerge> merges, MergeRank rank, int64_t vocab_size);

  // kNone if the pair does not merge.
  [[nodiscard]] uint32_t rank(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      const uint64_t found = slots_[slot];
      if (found >> rank_bits_ == key) return static_cast<uint32_t>(found & ((uint64_t{1} << rank_bits_) - 1));
      if (found == kEmpty) return kNone;
    }
  }
  [[nodiscard]] TokenId result(uint32_t rank) const {
    return results_.empty() ? static_cast<TokenId>(rank) : results_[rank];
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // would be a pair of the highest id, which is not used up
  [[nodiscard]] uint64_t key_of(TokenId left, TokenId right) const {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << id_bits_ | static_cast<uint32_t>(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }

  int id_bits_, rank_bits_, shift_;
  size_t mask_;
  std::vector<uint64_t> slots_;   // left, right, rank from the highest bit down
  std::vector<TokenId> results_;  // by rank; empty where the rank is the result
};

}  // namespace partita
