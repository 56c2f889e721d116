#include "partita/tokenizer/bpe/char_bpe_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita::internal {

CharBpeTable::CharBpeTable(std::span<const Char> chars, std::span<const SymbolMerge> merges, CharJoins joins)
    : joins_(std::move(joins)) {
  ascii_.fill(kNoSymbol);
  chars_.resize(std::bit_ceil(2 * chars.size() + 2), {0, kNoSymbol});
  char_shift_ = 64 - std::countr_zero(chars_.size());
  for (const Char& c : chars) {
    if (c.key < 128) {
      ascii_[c.key] = c.symbol;
      continue;
    }
    size_t slot = slot_of(c.key, char_shift_);
    while (chars_[slot].key != 0) slot = (slot + 1) & (chars_.size() - 1);
    chars_[slot] = c;
  }
  pairs_.resize(std::bit_ceil(2 * merges.size() + 2));
  pair_shift_ = 64 - std::countr_zero(pairs_.size());
  for (const SymbolMerge& merge : merges) {
    const uint64_t key = pair_key(merge.left, merge.right);
    size_t slot = slot_of(key, pair_shift_);
    while (pairs_[slot].key != kEmpty && pairs_[slot].key != key) slot = (slot + 1) & (pairs_.size() - 1);
    pairs_[slot] = {key, {merge.rank, merge.result}};
    ranks_ = std::max(ranks_, merge.rank + 1);
  }
}

}  // namespace partita::internal
