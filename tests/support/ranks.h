// For tests on several ranks (*_ranks_test.cc): every rank runs the same tests in the same order.
//
//   TEST(Broadcast, Reaches) {
//     auto all = partita::internal::test_world().group("all", partita::internal::test_ranks());
//     ...
//   }
#pragma once
#include <cstdlib>
#include <numeric>
#include <vector>

#include "partita/comm/world.h"

namespace partita::internal {

// Connected by main before the tests, with a timeout of a minute: a failed ASSERT on one rank does not hang the others.
[[nodiscard]] World& test_world();

// 0, 1, ..., size - 1.
[[nodiscard]] inline std::vector<int> test_ranks() {
  std::vector<int> ranks(static_cast<size_t>(test_world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Whether products of settings are tested in full (make test-layouts), not only a part that covers all pairs.
[[nodiscard]] inline bool full_products() { return std::getenv("PARTITA_FULL_PRODUCTS") != nullptr; }

}  // namespace partita::internal
