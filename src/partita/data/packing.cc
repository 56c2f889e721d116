#include "partita/data/packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/data/numpy_random.h"

namespace partita {
using namespace internal;
namespace {

// Free space per bin, in a tree of maxima that finds the first bin with enough space: node i has children 2i and 2i +
// 1.
class Rooms {
 public:
  Rooms(size_t bins, int64_t capacity)
      : leaves_(std::bit_ceil(std::max<size_t>(bins, 1))), most_(2 * leaves_, capacity) {}

  // Takes `size` from the first bin with enough space and returns the bin.
  size_t take(int64_t size) {
    size_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= size ? 2 * node : 2 * node + 1;
    const size_t bin = node - leaves_;
    most_[node] -= size;
    while ((node /= 2) > 0) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
    return bin;
  }

 private:
  size_t leaves_;
  std::vector<int64_t> most_;
};

}  // namespace

Packing pack_first_fit(std::span<const int64_t> sizes, int64_t capacity, std::span<const int64_t> order) {
  PARTITA_CHECK(order.size() == sizes.size(), "an order of {} items, {} sizes", order.size(), sizes.size());
  Rooms rooms(sizes.size(), capacity);  // one bin per item always suffices; unused bins count as new
  std::vector<size_t> bin_of(sizes.size());
  size_t bins = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(order[i])];
    PARTITA_CHECK(0 <= size && size <= capacity, "an item of {} for bins of {}", size, capacity);
    bin_of[i] = rooms.take(size);
    bins = std::max(bins, bin_of[i] + 1);
  }
  Packing packing{.items = std::vector<int64_t>(sizes.size()), .begins = std::vector<int64_t>(bins + 1)};
  for (const size_t bin : bin_of) ++packing.begins[bin + 1];
  std::partial_sum(packing.begins.begin(), packing.begins.end(), packing.begins.begin());
  std::vector<int64_t> next = packing.begins;
  for (size_t i = 0; i < order.size(); ++i) packing.items[static_cast<size_t>(next[bin_of[i]]++)] = order[i];
  return packing;
}

std::vector<int64_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  NumpyRandom(static_cast<uint32_t>(mix(mix(seed) ^ static_cast<uint64_t>(epoch)))).shuffle(std::span(order));
  return order;
}

}  // namespace partita
