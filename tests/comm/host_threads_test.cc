#include "partita/comm/host_threads.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::HasSubstr;

ThreadRequests wishes(int64_t key, Variables variables) {
  return thread_requests(key, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return {};
    return found->second;
  });
}

std::vector<int> cores(int first, int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Those of every rank of a machine.
using All = std::vector<std::vector<int>>;

// Of a process that is alone on so many cores.
int64_t count(int64_t key, const Variables& variables, int machine = 16) {
  return choose_threads(wishes(key, variables), All{cores(0, machine)}, 0, 0).count;
}

TEST(HostThreads, TheUsersChoiceWins) {
  EXPECT_EQ(count(0, {}), 16);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "3"}}), 3);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "1"}}), 1);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "64"}}), 64);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "6,2"}}), 6);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "3"}, {"PARTITA_NUM_THREADS", "5"}}), 5);
  EXPECT_EQ(count(7, {{"OMP_NUM_THREADS", "3"}, {"PARTITA_NUM_THREADS", "5"}}), 7);
  EXPECT_EQ(count(0, {{"PARTITA_NUM_THREADS", ""}}), 16);
}

TEST(HostThreads, WhatOpenMpIgnoresIsIgnored) {
  for (const char* text : {"", "0", "-2", "all", "1.5", "4 ", "99999999999", "1025"})
    EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", text}}), 16) << text;
}

TEST(HostThreads, OwnVariableIsChecked) {
  for (const char* text : {"0", "-1", "many", "1025", "2 ", "1e3"}) try {
      (void)wishes(0, {{"PARTITA_NUM_THREADS", text}});
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("PARTITA_NUM_THREADS=" + std::string(text)));
      EXPECT_THAT(error.what(), HasSubstr("1 to 1024"));
    }
}

// torchrun writes OMP_NUM_THREADS=1 where nothing was set. Another number, or another launcher, is the user's.
TEST(HostThreads, OneOfTorchrunIsNobodysChoice) {
  const Variables torchrun = {{"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "1"}};
  EXPECT_EQ(count(0, torchrun), 16);
  EXPECT_TRUE(wishes(0, torchrun).torchrun_default);
  EXPECT_EQ(count(0, {{"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "2"}}), 2);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}), 1);
  EXPECT_EQ(count(0, {{"OMP_NUM_THREADS", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}), 1);
  EXPECT_EQ(count(2, torchrun), 2);
  Variables own = torchrun;
  own["PARTITA_NUM_THREADS"] = "1";
  EXPECT_EQ(count(0, own), 1);
}

TEST(HostThreads, SharedCoresAreDivided) {
  const auto of = [](const All& all, size_t rank, double quota = 0) {
    return choose_threads({}, all, rank, quota).count;
  };
  EXPECT_EQ(of({cores(0, 16), cores(0, 16)}, 0), 8);
  EXPECT_EQ(of({cores(0, 16), cores(0, 16), cores(0, 16)}, 2), 5);
  EXPECT_EQ(of({cores(0, 2), cores(0, 2), cores(0, 2), cores(0, 2)}, 3), 1);  // more ranks than cores
  EXPECT_EQ(of({cores(0, 1), cores(1, 1)}, 1), 1);                            // bound to a core each by mpirun
  EXPECT_EQ(of({cores(0, 8), cores(8, 8)}, 1), 8);                            // by numactl
  EXPECT_EQ(of({cores(0, 8), cores(0, 8), cores(8, 8), cores(8, 8)}, 1), 4);  // two to a socket
  EXPECT_EQ(of({cores(0, 6), cores(3, 6)}, 0), 4);                            // three alone, three shared
  EXPECT_EQ(of({{}}, 0), 1);
  // A quota is of all ranks together.
  EXPECT_EQ(of({cores(0, 16)}, 0, 4), 4);
  EXPECT_EQ(of({cores(0, 16), cores(0, 16)}, 0, 4), 2);
  EXPECT_EQ(of({cores(0, 16)}, 0, 0.5), 1);
  EXPECT_EQ(of({cores(0, 16)}, 0, 100), 16);
  EXPECT_EQ(of({cores(0, 3), cores(0, 3), cores(0, 3)}, 0), 1);  // three thirds
}

// Ranks together never take more threads than there are cores or time for, unless each takes one.
TEST(HostThreads, NeverMoreThanTheMachineHas) {
  std::mt19937 random(1);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int round = 0; round < 2000; ++round) {
    const int machine = 1 + below(40), ranks = 1 + below(9);
    const double quota = below(2) == 0 ? 0 : 0.5 + below(60) / 2.0;
    All all;
    for (int rank = 0; rank < ranks; ++rank) {
      const int first = below(machine);
      all.push_back(cores(first, 1 + below(machine - first)));
    }
    std::vector<int> used;
    int64_t total = 0;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      used.insert(used.end(), all[rank].begin(), all[rank].end());
      const auto mine = choose_threads({}, all, rank, quota).count;
      EXPECT_GE(mine, 1);
      EXPECT_LE(mine, std::ssize(all[rank]));
      total += mine - 1;  // beyond the one that each has in any case
    }
    std::ranges::sort(used);
    const auto distinct = static_cast<double>(std::ranges::unique(used).begin() - used.begin());
    EXPECT_LE(static_cast<double>(total), quota > 0 ? std::min(distinct, quota) : distinct);
    if (ranks == 1 && quota == 0) {
      EXPECT_EQ(total + 1, std::ssize(all[0]));
    }
  }
}

TEST(HostThreads, SaysWhy) {
  EXPECT_EQ(choose_threads({}, All{cores(0, 16), cores(0, 16)}, 0, 0).text, "8 threads: 16 cores, shared by 2 ranks");
  EXPECT_EQ(choose_threads({}, All{cores(0, 16)}, 0, 1.5).text, "1 thread: 16 cores, a control group grants 1.5 CPUs");
  EXPECT_EQ(choose_threads({.key = 3}, All{cores(0, 1)}, 0, 0).text, "3 threads: train.threads");
}

TEST(HostThreads, AreSet) {
  const int before = at::get_num_threads();
  EXPECT_EQ(configure_threads(3).count, 3);
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(before);
}

TEST(HostThreads, TextWorkersUseAllThatIsGranted) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_EQ(default_workers(none), host_cores().workers());
  EXPECT_EQ(default_workers([](const std::string& name) -> std::optional<std::string> {
              if (name == "PARTITA_NUM_THREADS") return "6";
              return "1";
            }),
            6);
}

}  // namespace
}  // namespace partita::internal
