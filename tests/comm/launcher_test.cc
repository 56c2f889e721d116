#include "partita/comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(MpirunCall, OneMachine) {
  const MpirunCall call = mpirun_call(2, "/usr/bin/partita", {"train", "c.toml"}, {}, {.cores = 9});
  EXPECT_THAT(call.arguments, ElementsAre("-n", "2", "--oversubscribe", "--bind-to", "none", "-x", "PARTITA_LAUNCH",
                                          "/usr/bin/partita", "train", "c.toml"));
  EXPECT_THAT(call.environment, UnorderedElementsAre(Pair("PARTITA_LAUNCH", "1")));
}

// mpirun would start what follows ":" as another program, and take options for its own.
TEST(MpirunCall, ArgumentsAreData) {
  const MpirunCall call = mpirun_call(1, "p", {"train", ":", "-x", "HOME", "--tune"}, {}, {});
  const auto program = std::ranges::find(call.arguments, "p");
  EXPECT_THAT(std::vector<std::string>(program, call.arguments.end()),
              ElementsAre("p", "train", "=:", "=-x", "HOME", "=--tune"));
}

TEST(MpirunCall, TheTerminalIsTold) {
  const auto environment = [](LaunchMachine machine) { return mpirun_call(1, "p", {}, {}, machine).environment; };
  EXPECT_THAT(environment({.terminal_width = 80}),
              UnorderedElementsAre(Pair("PARTITA_LAUNCH", "1"), Pair("PARTITA_STATUS_LINES", "1"),
                                   Pair("PARTITA_TERMINAL_WIDTH", "78")));
  EXPECT_THAT(environment({.terminal_width = 80, .terminal = "/dev/pts/3"}),
              Contains(Pair("PARTITA_TERMINAL", "/dev/pts/3")));
  EXPECT_THAT(environment({.terminal_width = 80, .one_terminal = true}), Contains(Pair("PARTITA_ONE_TERMINAL", "1")));
  EXPECT_THAT(environment({.shared_memory = "/dev/shm/mine"}),
              Contains(Pair("OMPI_MCA_btl_vader_backing_directory", "/dev/shm/mine")));
  EXPECT_THAT(environment({.memory_folder = "/dev/shm/kept"}), Contains(Pair(kMemoryFolder, "/dev/shm/kept")));
}

// Ranks choose their threads themselves; what the user has set goes to other hosts too.
TEST(MpirunCall, AsRootWithThreadsSet) {
  const MpirunCall call =
      mpirun_call(5, "p", {}, {}, {.cores = 2, .root = true, .variables = {"OMP_NUM_THREADS", "PARTITA_NUM_THREADS"}});
  EXPECT_THAT(call.arguments, ElementsAre("-n", "5", "--oversubscribe", "--bind-to", "none", "-x", "PARTITA_LAUNCH",
                                          "-x", "OMP_NUM_THREADS", "-x", "PARTITA_NUM_THREADS", "p"));
  EXPECT_THAT(call.environment,
              UnorderedElementsAre(Pair("OMPI_ALLOW_RUN_AS_ROOT", "1"), Pair("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                                   Pair("PARTITA_LAUNCH", "1")));
}

TEST(MpirunCall, HostsWhereSlotsCount) {
  const MpirunCall call =
      mpirun_call(6, "p", {}, {.host_file = "hosts", .bind = "core"}, {.cores = 8, .hosts = 4});  // two ranks a host
  EXPECT_THAT(call.arguments, ElementsAre("-n", "6", "--hostfile", "hosts", "--map-by", "slot:PE=4", "--bind-to",
                                          "core", "-x", "PARTITA_LAUNCH", "p"));
  const MpirunCall slurm = mpirun_call(2, "p", {}, {}, {.cores = 2, .slurm = true});
  EXPECT_THAT(slurm.arguments, testing::Not(testing::Contains("--oversubscribe")));
}

TEST(MpirunCall, AMachineTakesALimitedNumberOfRanks) {
  const auto starts = [](int ranks, const LaunchMachine& machine) {
    return mpirun_call(ranks, "p", {"train", "c"}, {}, machine).arguments.at(1);
  };
  EXPECT_EQ(starts(64, {.cores = 2}), "64");
  EXPECT_THROW(starts(65, {.cores = 2}), UsageError);
  EXPECT_THROW(starts(100000, {.cores = 2}), UsageError);
  EXPECT_EQ(starts(400, {.cores = 100}), "400");
  EXPECT_THROW(starts(401, {.cores = 100}), UsageError);
  EXPECT_EQ(starts(128, {.cores = 2, .hosts = 2}), "128");
  EXPECT_THROW(starts(129, {.cores = 2, .hosts = 2}), UsageError);
  EXPECT_EQ(starts(1000, {.cores = 2, .slurm = true}), "1000");
}

TEST(MpirunCall, WrongUse) {
  EXPECT_THROW((void)mpirun_call(0, "p", {}, {}, {}), UsageError);
  EXPECT_THROW((void)mpirun_call(-3, "p", {}, {}, {}), UsageError);
  EXPECT_THROW((void)mpirun_call(1, "p", {}, {.bind = "thread"}, {}), UsageError);
  EXPECT_THROW((void)launch(1, {}, {.host_file = "/nonexistent/hosts"}), Error);
}

}  // namespace
}  // namespace partita::internal
