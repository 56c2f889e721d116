// Merges adjacent symbols of a text by rank: always the pair with the lowest rank, the leftmost on ties.
//
//   std::vector<SymbolAt> symbols = ...;          // the characters
//   CharBpeMerger merger;
//   merger.merge(table, symbols);                 // in place
//
// n symbols take O(n log n) time and about 24 n bytes. For few symbols, a linear search for the lowest rank is faster.
// For very many, candidates are kept in one list per rank, processed in ascending order; only new candidates whose rank
// has already been reached go through a heap.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "partita/tokenizer/bpe/char_bpe_table.h"

namespace partita::internal {

struct SymbolAt {
  Symbol symbol;
  uint32_t begin;  // offset of its first byte in the text
};

class CharBpeMerger {
 public:
  void merge(const CharBpeTable& table, std::vector<SymbolAt>& symbols) {
    merge(table, symbols, [](Symbol, Symbol, Symbol) {});
  }
  // on_pair(left, right, result) is called for each candidate pair as it appears.
  template <class OnPair>
  void merge(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair);

 private:
  struct Candidate {  // the pair whose left symbol is at `left`; stale if its rank has changed
    int32_t rank;
    uint32_t left;
  };
  template <class OnPair>
  void merge_few(const CharBpeTable& table, std::vector<SymbolAt>& symbols, OnPair on_pair);

  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr size_t kFew = 48, kMany = 1 << 16;
  static constexpr Symbol kGone = INT32_MIN;  // merged into the preceding symbol

  std::vector<CharBpeTable::Found> found_;
  std::vector<Candidate> heap_;
  std::vector<std::vector<uint32_t>> by_rank_;  // left positions of candidates, for ranks not yet reached
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
  int32_t rank = -1;  // rank being merged
  // Per-rank lists use extra memory, so short texts use only the heap.
  const bool by_rank = count > kMany;
  heap_.clear();
  before_.resize(count);
  after_.resize(count);
  if (by_rank) by_rank_.resize(static_cast<size_t>(table.ranks()));
  const auto look_up = [&](uint32_t left, uint32_t right) {
    const auto found = table.find(symbols[left].symbol, symbols[right].symbol);
    if (found.rank == CharBpeTable::kNever) return;
    on_pair(symbols[left].symbol, symbols[right].symbol, found.result);
    if (by_rank && found.rank > rank) {
      by_rank_[static_cast<size_t>(found.rank)].push_back(left);
    } else {
      heap_.push_back({found.rank, left});
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
  };
  // Merges the pair at `left` if it still has this rank.
  const auto merge_at = [&](int32_t its_rank, uint32_t left) {
    if (symbols[left].symbol == kGone || after_[left] == kEnd) return;
    const uint32_t right = after_[left];
    const auto found = table.find(symbols[left].symbol, symbols[right].symbol);
    if (found.rank != its_rank) return;
    symbols[left].symbol = found.result;
    symbols[right].symbol = kGone;
    const uint32_t after = after_[left] = after_[right];
    if (after != kEnd) before_[after] = left;
    if (before_[left] != kEnd) look_up(before_[left], left);
    if (after != kEnd) look_up(left, after);
  };
  const auto merge_heap_below = [&](int32_t its_rank, uint32_t left) {
    while (!heap_.empty() && later({its_rank, left}, heap_.front())) {
      const Candidate next = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      merge_at(next.rank, next.left);
    }
  };
  for (uint32_t i = 0; i < count; ++i) {
    before_[i] = i == 0 ? kEnd : i - 1;
    after_[i] = i + 1 == count ? kEnd : i + 1;
  }
  for (uint32_t i = 0; i + 1 < count; ++i) look_up(i, i + 1);
  for (size_t r = 0; by_rank && r < by_rank_.size(); ++r) {
    rank = static_cast<int32_t>(r);
    std::vector<uint32_t> lefts = std::move(by_rank_[r]);
    by_rank_[r] = {};
    std::sort(lefts.begin(), lefts.end());
    for (const uint32_t left : lefts) {
      merge_heap_below(rank, left);
      merge_at(rank, left);
    }
    merge_heap_below(rank + 1, 0);
  }
  merge_heap_below(CharBpeTable::kNever, 0);
  std::erase_if(symbols, [](const SymbolAt& s) { return s.symbol == kGone; });
}

}  // namespace partita::internal
