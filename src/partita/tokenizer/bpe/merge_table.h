// Ranks of token pairs: the lookup that dominates merging.
//
//   const MergeTable table(model, byte_tokens);
//   if (const uint32_t rank = table.rank(left, right); rank != MergeTable::kNone) token = table.result(rank);
//
// Open addressing with both tokens and their rank packed into eight bytes: GPT-2's 50000 merges take 1 MB, which fits
// in the L2 cache.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "partita/tokenizer/bpe/bpe_model.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {

class MergeTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // byte_tokens: the token of each byte. If a pair occurs twice in model.merges, the last one counts. Error: more
  // tokens and merges than fit into an entry.
  MergeTable(const BpeModel& model, const std::array<TokenId, 256>& byte_tokens);

  // kNone if the pair does not merge.
  [[nodiscard]] uint32_t rank(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      const uint64_t found = slots_[slot];
      if (found >> rank_bits_ == key) return static_cast<uint32_t>(found & ((uint64_t{1} << rank_bits_) - 1));
      if (found == kEmpty) return kNone;
    }
  }
  // The same for the tokens of two bytes.
  [[nodiscard]] uint32_t byte_rank(char left, char right) const { return byte_ranks_[pair_of(left, right)]; }
  // Whether any merge joins a token ending in `left` to one beginning with `right`. If not, the two sides can be merged
  // independently.
  [[nodiscard]] bool joins(char left, char right) const { return joins_[pair_of(left, right)]; }
  [[nodiscard]] TokenId byte_token(char byte) const { return byte_tokens_[static_cast<unsigned char>(byte)]; }
  [[nodiscard]] size_t ranks() const { return ranks_; }  // all ranks are below this
  [[nodiscard]] TokenId result(uint32_t rank) const {
    return results_.empty() ? static_cast<TokenId>(rank) : results_[rank];
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // a pair of the highest id, which is never used
  [[nodiscard]] uint64_t key_of(TokenId left, TokenId right) const {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << id_bits_ | static_cast<uint32_t>(right);
  }
  static size_t pair_of(char left, char right) {
    return size_t{static_cast<unsigned char>(left)} << 8 | static_cast<unsigned char>(right);
  }
  [[nodiscard]] size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }

  int id_bits_, rank_bits_, shift_;
  size_t mask_, ranks_ = 0;
  std::vector<uint64_t> slots_;  // from the highest bit down: left, right, rank
  std::array<TokenId, 256> byte_tokens_;
  std::vector<uint32_t> byte_ranks_;
  std::vector<bool> joins_;
  std::vector<TokenId> results_;  // by rank; empty if the rank is the result
};

}  // namespace partita::internal
