#include "partita/engine/graph_pays.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(GraphPays, WhereCallsAreShort) {
  constexpr int64_t kGpt2 = 7'087'872, kGpt2Xl = 30'740'800, kLlama1B = 44'044'288;
  EXPECT_TRUE(graph_pays(kGpt2, 1024));
  EXPECT_TRUE(graph_pays(kGpt2, 4096));
  EXPECT_FALSE(graph_pays(kGpt2, 65536));
  EXPECT_FALSE(graph_pays(kGpt2Xl, 8192));
  EXPECT_FALSE(graph_pays(kLlama1B, 16384));
  EXPECT_TRUE(graph_pays(0, 0));
}

}  // namespace
}  // namespace partita::internal
