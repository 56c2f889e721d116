// Packs several short texts into one sample, and shuffles the samples of an epoch. Pure.
//
//   const Packing packing = pack_first_fit(sizes, sequence_length, epoch_order(sizes.size(), seed, 0));
//   for (int64_t item : packing.bin(b)) ...
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace partita {

// Assignment of items to bins.
struct Packing {
  std::vector<int64_t> items;   // ordered by bin
  std::vector<int64_t> begins;  // offset of each bin in `items`; one more for the end

  [[nodiscard]] int64_t bins() const { return static_cast<int64_t>(begins.size()) - 1; }
  [[nodiscard]] std::span<const int64_t> bin(int64_t b) const {
    const int64_t begin = begins[static_cast<size_t>(b)], end = begins[static_cast<size_t>(b) + 1];
    return std::span(items).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

// First-fit: each item of `order` goes into the first bin with enough space. O(n log n). Uses at most 1.7 times the
// optimal number of bins (G. Dosa, J. Sgall, STACS 2013). order: a permutation of the items; sizes: of the items, 0 to
// capacity.
[[nodiscard]] Packing pack_first_fit(std::span<const int64_t> sizes, int64_t capacity, std::span<const int64_t> order);

// 0 .. count-1, shuffled with seed and epoch.
[[nodiscard]] std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace partita
