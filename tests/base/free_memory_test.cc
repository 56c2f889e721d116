#include "partita/base/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

TEST(FreeForProcess, IsTheLeastOfTheLimits) {
  EXPECT_EQ(free_for_process({}, 2).bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(free_for_process({}, 2).limit, "");
  const std::vector<MemoryLimit> limits = {{"machine", 1000, false}, {"ulimit", 600, true}};
  EXPECT_EQ(free_for_process(limits, 1).bytes, 600);
  EXPECT_EQ(free_for_process(limits, 1).limit, "ulimit");
  EXPECT_EQ(free_for_process(limits, 2).bytes, 500);  // two ranks share the machine, each has its own ulimit
  EXPECT_EQ(free_for_process(limits, 2).limit, "machine");
  EXPECT_EQ(free_for_process(limits, 0).bytes, 600);
}

TEST(KilobytesLine, OfProc) {
  const std::string text = "MemTotal:       32 kB\nMemAvailable:   12 kB\nMem: x\n";
  EXPECT_EQ(kilobytes_line(text, "MemAvailable"), 12 << 10);
  EXPECT_EQ(kilobytes_line(text, "MemTotal"), 32 << 10);
  EXPECT_EQ(kilobytes_line(text, "Mem"), -1);
  EXPECT_EQ(kilobytes_line(text, "SwapFree"), -1);
  EXPECT_EQ(kilobytes_line("", "SwapFree"), -1);
}

class ControlGroups : public testing::Test {
 protected:
  void group(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files) {
    std::filesystem::create_directories(root_ / name);
    for (const auto& [file, text] : files) write_file(root_ / name / file, text);
  }
  std::vector<MemoryLimit> limits(const std::string& membership, int64_t swap = 0) {
    return control_group_limits(root_.path(), membership, swap);
  }
  TemporaryDirectory root_;
};

TEST_F(ControlGroups, OfVersion2WithThoseAbove) {
  group("job/step", {{"memory.max", "5000\n"},
                     {"memory.current", "3000\n"},
                     {"memory.stat", "anon 1800\ninactive_file 1000\nactive_file 200\n"}});
  group("job", {{"memory.max", "max\n"}, {"memory.current", "1\n"}});
  ASSERT_EQ(limits("0::/job/step\n").size(), 1U);
  EXPECT_EQ(limits("0::/job/step\n")[0].free, 5000 - (3000 - 1200));
  EXPECT_FALSE(limits("0::/job/step\n")[0].per_process);
  group("job", {{"memory.max", "4000\n"}, {"memory.current", "3900\n"}, {"memory.stat", ""}});
  EXPECT_EQ(limits("0::/job/step\n")[0].free, 100);
}

TEST_F(ControlGroups, CountSwapThatTheyMayUse) {
  group("a", {{"memory.max", "500"}, {"memory.current", "500"}, {"memory.swap.max", "max"}});
  EXPECT_EQ(limits("0::/a\n", 70)[0].free, 70);
  group("a", {{"memory.swap.max", "30"}, {"memory.swap.current", "10"}});
  EXPECT_EQ(limits("0::/a\n", 70)[0].free, 20);
}

TEST_F(ControlGroups, OfVersion1AndOfContainers) {
  group("memory", {{"memory.limit_in_bytes", "9223372036854771712\n"}, {"memory.usage_in_bytes", "5\n"}});
  EXPECT_TRUE(limits("11:memory:/docker/x\n4:cpu,cpuacct:/\n").empty());
  // The name outside is not found inside: the root is the container's own.
  group("memory", {{"memory.limit_in_bytes", "800\n"}, {"memory.stat", "total_inactive_file 3\n"}});
  ASSERT_EQ(limits("11:memory:/docker/x\n4:cpu,cpuacct:/\n").size(), 1U);
  EXPECT_EQ(limits("11:memory:/docker/x\n")[0].free, 798);
}

TEST_F(ControlGroups, WithoutOrUnreadable) {
  EXPECT_TRUE(limits("").empty());
  EXPECT_TRUE(limits("0::/\n").empty());
  EXPECT_TRUE(limits("nonsense\n0:\n").empty());
  group("a", {{"memory.max", "many\n"}, {"memory.current", "1\n"}});
  EXPECT_TRUE(limits("0::/a\n").empty());
}

TEST(MemoryLimits, OfThisMachineAreThere) {
  const FreeMemory free = free_for_process(memory_limits(), 1);
  EXPECT_GT(free.bytes, 0);
  EXPECT_LT(free.bytes, int64_t{1} << 50);
  EXPECT_FALSE(free.limit.empty());
}

}  // namespace
}  // namespace partita::internal
