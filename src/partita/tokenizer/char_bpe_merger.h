// Merges the symbols of a text by rank: pairs of neighbours, always the one of the lowest rank, the leftmost of equals.
//
//   std::vector<SymbolAt> symbols = ...;          // the characters
//   CharBpeMerger merger;
//   merger.merge(table, symbols);                 // in place
//
// n symbols take O(n log n) and some 24 n bytes; few take a plain search for the lowest, which is faster.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/tokenizer/char_bpe_table.h"

namespace partita {

struct SymbolAt {
  Symbol symbol;
  uint32_t begin;  // its first byte in the text
};

class CharBpeMerger {
 public:
  void merge(const CharBpeTable& table, std::vector<SymbolAt>& symbols) {
    merge(table, symbols, [](Symbol, Symbol, Symbol) {});
  }
  // on_pair(left, right, result): each pair that might merge, in the order in which it comes up.
  template <class OnPair>
  void merge(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair);

 private:
  struct Candidate {  // the pair whose left symbol stands at `left`; stale if another result stands there by now
    int32_t rank;
    uint32_t left;
    Symbol result;
  };
  template <class OnPair>
  void merge_few(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair);

  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr size_t kFew = 48;
  static constexpr Symbol kGone = INT32_MIN;  // merged into the symbol before it

  std::vector<CharBpeTable::Found> found_;
  std::vector<Candidate> heap_;
  std::vector<uint32_t> before_, after_;
};

template <class OnPair>
void CharBpeMerger::merge_few(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair) {
  size_t count = symbols.size();
  found_.resize(count);
  const auto look_up = [&](size_t left) {
    found_[left] = table.find(symbols[left].symbol, symbols[left + 1].symbol);
    if (found_[left].rank != CharBpeTable::kNever)
      on_pair(symbols[left].symbol, symbols[left + 1].symbol, found_[left].result);
  };
  for (size_t left = 0; left + 1 < count; ++left) look_up(left);
  while (count > 1) {
    size_t best = 0;
    for (size_t left = 1; left + 1 < count; ++left) {
      if (found_[left].rank < found_[best].rank) best = left;
    }
    if (found_[best].rank == CharBpeTable::kNever) break;
    symbols[best].symbol = found_[best].result;
    symbols.erase(symbols.begin() + static_cast<int64_t>(best) + 1);
    found_.erase(found_.begin() + static_cast<int64_t>(best));
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
}

template <class OnPair>
void CharBpeMerger::merge(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair) {
  if (symbols.size() <= kFew) return merge_few(table, symbols, on_pair);
  const auto count = static_cast<uint32_t>(symbols.size());
  constexpr auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
  };
  heap_.clear();
  before_.resize(count);
  after_.resize(count);
  const auto look_up = [&](uint32_t left, uint32_t right) {
    const auto found = table.find(symbols[left].symbol, symbols[right].symbol);
    if (found.rank == CharBpeTable::kNever) return false;
    on_pair(symbols[left].symbol, symbols[right].symbol, found.result);
    heap_.push_back({found.rank, left, found.result});
    return true;
  };
  for (uint32_t i = 0; i < count; ++i) {
    before_[i] = i == 0 ? kEnd : i - 1;
    after_[i] = i + 1 == count ? kEnd : i + 1;
  }
  for (uint32_t i = 0; i + 1 < count; ++i) look_up(i, i + 1);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    const Candidate next = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    if (symbols[next.left].symbol == kGone || after_[next.left] == kEnd) continue;
    const uint32_t right = after_[next.left];
    const auto found = table.find(symbols[next.left].symbol, symbols[right].symbol);
    if (found.rank != next.rank || found.result != next.result) continue;
    symbols[next.left].symbol = next.result;
    symbols[right].symbol = kGone;
    const uint32_t after = after_[next.left] = after_[right];
    if (after != kEnd) before_[after] = next.left;
    if (before_[next.left] != kEnd && look_up(before_[next.left], next.left)) {
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
    if (after != kEnd && look_up(next.left, after)) std::push_heap(heap_.begin(), heap_.end(), later);
  }
  std::erase_if(symbols, [](const SymbolAt& s) { return s.symbol == kGone; });
}

}  // namespace partita
