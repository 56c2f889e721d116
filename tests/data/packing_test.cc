#include "partita/data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> natural(size_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::vector<int64_t>> bins_of(const Packing& packing) {
  std::vector<std::vector<int64_t>> bins;
  for (int64_t b = 0; b < packing.bins(); ++b) bins.emplace_back(packing.bin(b).begin(), packing.bin(b).end());
  return bins;
}

TEST(Packing, FirstBinWithRoom) {
  const std::vector<int64_t> sizes = {6, 5, 3, 4, 1, 10, 0, 2};
  EXPECT_THAT(bins_of(pack_first_fit(sizes, 10, natural(8))),
              ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3), ElementsAre(5), ElementsAre(7)));
  const std::vector<int64_t> backwards = {7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_THAT(bins_of(pack_first_fit(sizes, 10, backwards)),
              ElementsAre(ElementsAre(7, 6, 4, 3, 2), ElementsAre(5), ElementsAre(1), ElementsAre(0)));
  EXPECT_EQ(pack_first_fit({}, 10, {}).bins(), 0);
}

// Against the definition, bin by bin.
TEST(Packing, EqualsTheQuadraticDefinition) {
  std::mt19937 random(1);
  for (const size_t count : {1U, 2U, 3U, 7U, 64U, 65U, 300U}) {
    const int64_t capacity = 1 + static_cast<int64_t>(random() % 50);
    std::vector<int64_t> sizes(count);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random()) % (capacity + 1);
    std::vector<int64_t> order = natural(count);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::vector<int64_t>> bins;
    std::vector<int64_t> room;
    for (const int64_t item : order) {
      const int64_t size = sizes[static_cast<size_t>(item)];
      size_t bin = 0;
      while (bin < room.size() && room[bin] < size) ++bin;
      if (bin == room.size()) {
        room.push_back(capacity);
        bins.emplace_back();
      }
      room[bin] -= size;
      bins[bin].push_back(item);
    }
    EXPECT_EQ(bins_of(pack_first_fit(sizes, capacity, order)), bins) << count << " items";
  }
}

TEST(Packing, RefusesWhatDoesNotFit) {
  const std::vector<int64_t> sizes = {3, 11};
  EXPECT_THAT(error_message([&] { (void)pack_first_fit(sizes, 10, natural(2)); }), HasSubstr("an item of 11"));
  EXPECT_THAT(error_message([&] { (void)pack_first_fit(sizes, 20, natural(1)); }), HasSubstr("an order of 1 items"));
}

TEST(EpochOrder, IsAPermutationOfItsOwnForEachSeedAndEpoch) {
  for (const int64_t count : {0, 1, 2, 37}) {
    std::vector<int64_t> order = epoch_order(count, 5, 3);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, natural(static_cast<size_t>(count)));
  }
  EXPECT_EQ(epoch_order(37, 5, 3), epoch_order(37, 5, 3));
  EXPECT_NE(epoch_order(37, 5, 3), epoch_order(37, 5, 4));
  EXPECT_NE(epoch_order(37, 5, 3), epoch_order(37, 6, 3));
  EXPECT_NE(epoch_order(37, 5, 3), natural(37));
}

// Every item comes first about as often.
TEST(EpochOrder, IsUniform) {
  std::vector<int64_t> first(5);
  for (int64_t epoch = 0; epoch < 5000; ++epoch) ++first[static_cast<size_t>(epoch_order(5, 9, epoch)[0])];
  for (const int64_t times : first) EXPECT_NEAR(static_cast<double>(times), 1000, 120);
}

}  // namespace
}  // namespace partita::internal
