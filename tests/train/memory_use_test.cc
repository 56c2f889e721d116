#include "partita/train/memory_use.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::internal {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryUse, ReadsInALine) {
  MemoryUse use{.planned = 200 * kMiB, .measured = 206 * kMiB, .margin = 30 * kMiB};
  EXPECT_EQ(memory_use_text(use),
            "Memory per rank: 200.0 MiB planned, 206.0 MiB measured (3.0% more), margin 30.0 MiB");
  use.measured = 231 * kMiB;
  EXPECT_EQ(memory_use_text(use),
            "Memory per rank: 200.0 MiB planned, 231.0 MiB measured (15.5% more), beyond the margin of 30.0 MiB");
  use.measured = 190 * kMiB;
  EXPECT_EQ(memory_use_text(use),
            "Memory per rank: 200.0 MiB planned, 190.0 MiB measured (5.0% less), margin 30.0 MiB");
  use = {.planned = 200 * kMiB, .measured = 239 * kMiB, .saving = 10 * kMiB, .margin = 30 * kMiB};
  EXPECT_EQ(
      memory_use_text(use),
      "Memory per rank: 200.0 MiB planned, 239.0 MiB measured (19.5% more; up to 10.0 MiB for checkpoints), margin "
      "30.0 MiB");
  EXPECT_EQ(memory_use_text({.planned = 200 * kMiB, .measured = 201 * kMiB, .reserved = 220 * kMiB}),
            "Memory per rank: 200.0 MiB planned, 201.0 MiB measured (0.5% more), 220.0 MiB reserved");
  EXPECT_EQ(memory_use_text({.planned = 200 * kMiB, .margin = kMiB}), "Memory per rank: 200.0 MiB planned");
}

TEST(MemoryUse, AsJson) {
  const MemoryUse use{.planned = 200, .measured = 210, .margin = 30};
  EXPECT_EQ(to_json(use), R"({"planned":200,"measured":210,"reserved":null,"saving":null,"margin":30})");
  for (const MemoryUse& u : {use, MemoryUse{.planned = 3}, MemoryUse{.planned = 3, .measured = 4, .reserved = 5}})
    EXPECT_EQ(parse_memory_use(to_json(u)), u);
}

TEST(MemoryUse, OfTheRankThatExceedsItsPlanMost) {
  const std::vector<MemoryUse> ranks = {
      {.planned = 10, .measured = 12}, {.planned = 5, .measured = 9}, {.planned = 20}};
  EXPECT_EQ(worst_of(ranks), ranks[1]);
}

TEST(MemoryMargin, GrowsWithThePlanAndThreads) {
  EXPECT_EQ(memory_margin(0, 1), 26 * kMiB);
  EXPECT_EQ(memory_margin(1000 * kMiB, 8), 50 * kMiB);
}

}  // namespace
}  // namespace partita::internal
