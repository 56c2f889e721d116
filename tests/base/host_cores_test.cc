#include "partita/base/host_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

// A folder that stands for the root of a machine.
class Machine {
 public:
  Machine() : root_(fs::temp_directory_path() / ("partita-host-cores-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~Machine() { fs::remove_all(root_); }
  Machine& file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
    return *this;
  }
  // CPUs i and i + cores are hardware threads of one core.
  Machine& hyper_threads(int cores) {
    for (int cpu = 0; cpu < 2 * cores; ++cpu)
      file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
           std::to_string(cpu % cores) + "," + std::to_string(cpu % cores + cores));
    return *this;
  }
  [[nodiscard]] HostCores read(std::vector<int> affinity) const { return host_cores(std::move(affinity), root_); }

 private:
  fs::path root_;
};

TEST(HostCores, OfThisProcessAreAtLeastOne) {
  const HostCores host = host_cores();
  EXPECT_GE(host.cpus.size(), 1U);
  EXPECT_GE(host.cores.size(), 1U);
  EXPECT_LE(host.cores.size(), host.cpus.size());
  EXPECT_GE(host.workers(), 1);
}

TEST(HostCores, HardwareThreadsOfACoreCountOnce) {
  Machine machine;
  machine.hyper_threads(4);
  EXPECT_THAT(machine.read({0, 1, 2, 3, 4, 5, 6, 7}).cores, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(machine.read({1, 5, 6}).cores, ElementsAre(1, 2));
  EXPECT_THAT(machine.read({7}).cores, ElementsAre(3));
  EXPECT_EQ(machine.read({0, 1, 4, 5}).workers(), 4);
}

TEST(HostCores, WithoutTopologyEachCpuIsACore) {
  Machine machine;
  EXPECT_THAT(machine.read({0, 2}).cores, ElementsAre(0, 2));
  machine.file("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "not a list");
  EXPECT_THAT(machine.read({0, 2}).cores, ElementsAre(0, 2));
  machine.file("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,5");  // of another CPU
  EXPECT_THAT(machine.read({0, 2}).cores, ElementsAre(0, 2));
}

TEST(HostCores, TheLeastQuotaOfAllGroupsCounts) {
  Machine two;
  two.file("proc/self/cgroup", "0::/kubepods/pod1").file("sys/fs/cgroup/kubepods/cpu.max", "350000 100000");
  EXPECT_EQ(two.read({0, 1, 2, 3}).quota, 3.5);
  EXPECT_EQ(two.read({0, 1, 2, 3}).workers(), 4);
  two.file("sys/fs/cgroup/kubepods/pod1/cpu.max", "50000 100000");
  EXPECT_EQ(two.read({0, 1, 2, 3}).quota, 0.5);
  EXPECT_EQ(two.read({0, 1, 2, 3}).workers(), 1);

  Machine one;
  one.file("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/abc\n0::/")
      .file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1")
      .file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000")
      .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000")
      .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
      .file("sys/fs/cgroup/memory/x/cpu.cfs_quota_us", "1");
  EXPECT_EQ(one.read({0}).quota, 2);
}

TEST(HostCores, WhatIsNoQuotaIsNone) {
  for (const char* text : {"max 100000", "", "x y", "100000", "100000 0", "-5 100000", "100000 -5", "nan 1"}) {
    Machine machine;
    machine.file("proc/self/cgroup", "0::/a\nnonsense\n:").file("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(machine.read({0, 1}).quota, 0) << text;
    EXPECT_EQ(machine.read({0, 1}).workers(), 2) << text;
  }
}

TEST(CpuList, Parses) {
  EXPECT_THAT(parse_cpu_list("0"), ElementsAre(0));
  EXPECT_THAT(parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list("5-5,7-8"), ElementsAre(5, 7, 8));
  for (const char* text : {"", ",", "1,", "-1", "3-1", "1-", "a", "1;2", "1 ", "0-99999999", "99999999999999999999"})
    EXPECT_THAT(parse_cpu_list(text), IsEmpty()) << text;
}

}  // namespace
}  // namespace partita::internal
