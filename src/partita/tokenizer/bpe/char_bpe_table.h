// Lookup tables of character BPE: characters -> symbols, pairs of symbols -> merges, and where no merge can cross.
//
// A symbol is a number for a string: a token id, or a number above all ids for a character that occurs in tokens but is
// not one. Characters without a symbol never merge.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/bpe/char_joins.h"

namespace partita::internal {

using Symbol = int32_t;
inline constexpr Symbol kNoSymbol = -1;  // this and lower values never merge

struct SymbolMerge {
  Symbol left, right;  // the pair that merges
  Symbol result;
  int32_t rank;  // lowest first, leftmost on ties
};

class CharBpeTable {
 public:
  struct Found {
    int32_t rank;
    Symbol result;
  };
  static constexpr int32_t kNever = INT32_MAX;  // rank of pairs that do not merge

  struct Char {
    CharKey key;
    Symbol symbol;
  };
  CharBpeTable() = default;
  // `joins`: all adjacent characters that a merge may join.
  CharBpeTable(std::span<const Char> chars, std::span<const SymbolMerge> merges, CharJoins joins);

  [[nodiscard]] Symbol symbol_of(CharKey key) const {
    if (key < 128) return ascii_[key];
    for (size_t slot = slot_of(key, char_shift_);; slot = (slot + 1) & (chars_.size() - 1)) {
      if (chars_[slot].key == key) return chars_[slot].symbol;
      if (chars_[slot].key == 0) return kNoSymbol;
    }
  }
  [[nodiscard]] Found find(Symbol left, Symbol right) const {
    if ((left | right) < 0) return {kNever, kNoSymbol};
    const uint64_t key = pair_key(left, right);
    for (size_t slot = slot_of(key, pair_shift_);; slot = (slot + 1) & (pairs_.size() - 1)) {
      if (pairs_[slot].key == key) return pairs_[slot].found;
      if (pairs_[slot].key == kEmpty) return {kNever, kNoSymbol};
    }
  }
  [[nodiscard]] const CharJoins& joins() const { return joins_; }
  // All ranks are below this.
  [[nodiscard]] int32_t ranks() const { return ranks_; }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // symbols in pairs are never negative
  struct Pair {
    uint64_t key = kEmpty;
    Found found{kNever, kNoSymbol};
  };
  static uint64_t pair_key(Symbol left, Symbol right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  static size_t slot_of(uint64_t key, int shift) { return (key * 0x9E3779B97F4A7C15) >> shift; }

  std::array<Symbol, 128> ascii_{};
  std::vector<Char> chars_;
  std::vector<Pair> pairs_;
  int char_shift_ = 0, pair_shift_ = 0;
  int32_t ranks_ = 0;
  CharJoins joins_;
};

}  // namespace partita::internal
