#include <gtest/gtest.h>
#include "tests/support/ranks.h"
namespace partita {
TEST(SelfCheck, Passes) {
  auto all = test_world().group("all", test_ranks());
  self_check(*all);
}
}  // namespace partita
