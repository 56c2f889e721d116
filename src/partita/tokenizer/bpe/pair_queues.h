// Queues of candidate pairs: the lowest rank first, the leftmost on ties. Two implementations of one interface:
//
//   queue.push(rank, place);
//   while (const auto next = queue.pop()) merge(next->rank, next->place);
//
// PairHeap is faster while everything fits in the L1 and L2 caches, RankLists for pretokens of any length.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace partita::internal {

struct RankedPair {
  uint32_t rank, place;
};

class PairHeap {
 public:
  void push(uint32_t rank, uint32_t place) {
    pairs_.push_back(uint64_t{rank} << 32 | place);
    std::push_heap(pairs_.begin(), pairs_.end(), std::greater());
  }
  [[nodiscard]] std::optional<RankedPair> pop() {
    if (pairs_.empty()) return std::nullopt;
    std::pop_heap(pairs_.begin(), pairs_.end(), std::greater());
    const uint64_t pair = pairs_.back();
    pairs_.pop_back();
    return RankedPair{static_cast<uint32_t>(pair >> 32), static_cast<uint32_t>(pair)};
  }

 private:
  std::vector<uint64_t> pairs_;
};

// One list of positions per rank, and a bitmap of non-empty lists. A rank's positions are consumed from left to right,
// so memory is accessed in order; ranks mostly ascend, so time is nearly linear in the number of pairs.
class RankLists {
 public:
  explicit RankLists(size_t ranks) : lists_(ranks), full_((ranks + 63) / 64) {}

  void push(uint32_t rank, uint32_t place) {
    List& list = lists_[rank];
    list.sorted = list.sorted && (list.places.empty() || list.places.back() < place);
    list.places.push_back(place);
    full_[rank / 64] |= uint64_t{1} << (rank % 64);
    lowest_word_ = std::min(lowest_word_, size_t{rank / 64});
  }

  [[nodiscard]] std::optional<RankedPair> pop() {
    while (lowest_word_ < full_.size() && full_[lowest_word_] == 0) ++lowest_word_;
    if (lowest_word_ == full_.size()) return std::nullopt;
    const auto bit = static_cast<size_t>(std::countr_zero(full_[lowest_word_]));
    const size_t rank = 64 * lowest_word_ + bit;
    List& list = lists_[rank];
    if (!list.sorted) {
      std::sort(list.places.begin() + static_cast<int64_t>(list.used), list.places.end());
      list.sorted = true;
    }
    const RankedPair next{static_cast<uint32_t>(rank), list.places[list.used++]};
    if (list.used == list.places.size()) {
      list = {};
      full_[lowest_word_] &= ~(uint64_t{1} << bit);
    }
    return next;
  }

 private:
  struct List {
    std::vector<uint32_t> places;
    size_t used = 0;  // number consumed
    bool sorted = true;
  };
  std::vector<List> lists_;
  std::vector<uint64_t> full_;
  size_t lowest_word_ = 0;  // all lists of lower words are empty
};

}  // namespace partita::internal
