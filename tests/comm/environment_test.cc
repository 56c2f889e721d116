#include "partita/comm/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "partita/base/error.h"

namespace partita {
namespace {

using testing::HasSubstr;
using Kind = Launch::Kind;
using Variables = std::map<std::string, std::string>;

Launch detect(const Variables& variables) {
  return detect_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string message(const Variables& variables) {
  try {
    detect(variables);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "abc"}};
// What srun -N2 -n5 sets for the last task, as seen under Slurm 22.05.
const Variables kSrun = {{"SLURM_PROCID", "4"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_TASKS_PER_NODE", "3,2"},
                         {"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_STEP_NODELIST", "n[04-05]"},
                         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"}};

TEST(DetectLaunch, NothingIsSingle) {
  const Launch launch = detect({});
  EXPECT_EQ(launch.kind, Kind::single);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.size, 1);
}

TEST(DetectLaunch, OpenMpi) {
  const Launch launch = detect(kMpi);
  EXPECT_EQ(launch.kind, Kind::open_mpi);
  EXPECT_TRUE(launch.uses_mpi());
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
}

TEST(DetectLaunch, Torchrun) {
  const Launch launch = detect(kTorchrun);
  EXPECT_EQ(launch.kind, Kind::torchrun);
  EXPECT_FALSE(launch.uses_mpi());
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.master_address, "node1");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(launch.job, "torchrun abc");
  EXPECT_EQ(detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);  // alone it needs no address
}

TEST(DetectLaunch, SlurmWithoutMpi) {
  const Launch launch = detect(kSrun);
  EXPECT_EQ(launch.kind, Kind::slurm);
  EXPECT_EQ(launch.rank, 4);
  EXPECT_EQ(launch.size, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.master_address, "n04");
  EXPECT_EQ(launch.master_fallback, "10.0.0.9");
  EXPECT_EQ(launch.job, "slurm 17.2");
  // The same port for all tasks of a step, below those that the system hands out, another for another step or job.
  EXPECT_GE(launch.master_port, 15000);
  EXPECT_LT(launch.master_port, 32768 - 16);
  EXPECT_EQ(detect(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}})).master_port, launch.master_port);
  EXPECT_NE(detect(with(kSrun, {{"SLURM_STEP_ID", "3"}})).master_port, launch.master_port);
  EXPECT_NE(detect(with(kSrun, {{"SLURM_JOB_ID", "18"}})).master_port, launch.master_port);
}

TEST(DetectLaunch, SlurmTasksOfThisNode) {
  const auto local_size = [](const char* tasks, const char* node) {
    return detect(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", tasks}, {"SLURM_NODEID", node}})).local_size;
  };
  EXPECT_EQ(local_size("2(x3),4", "0"), 2);
  EXPECT_EQ(local_size("2(x3),4", "2"), 2);
  EXPECT_EQ(local_size("2(x3),4", "3"), 4);
  EXPECT_EQ(local_size("3,2,7", "2"), 7);
}

TEST(DetectLaunch, SlurmWithPmixUsesMpi) {
  const Launch launch = detect(with(kSrun, {{"PMIX_RANK", "4"}}));
  EXPECT_EQ(launch.kind, Kind::slurm_pmix);
  EXPECT_TRUE(launch.uses_mpi());
  EXPECT_EQ(launch.rank, 4);
  EXPECT_EQ(launch.size, 5);
}

// A batch script and a shell of salloc know the size of the allocation, but are not tasks of a step.
TEST(DetectLaunch, InsideAnAllocationIsSingle) {
  EXPECT_EQ(detect(without(kSrun, "SLURM_STEP_ID")).kind, Kind::single);
  EXPECT_EQ(detect({{"SLURM_JOB_ID", "17"}, {"SLURM_NTASKS", "8"}}).kind, Kind::single);
}

TEST(DetectLaunch, TheInnermostLauncherCounts) {
  EXPECT_EQ(detect(with(kSrun, kMpi)).kind, Kind::open_mpi);
  EXPECT_EQ(detect(with(kSrun, kTorchrun)).kind, Kind::torchrun);
}

TEST(DetectLaunch, ErrorsNameTheVariable) {
  EXPECT_EQ(message(without(kTorchrun, "WORLD_SIZE")),
            "the environment has RANK but not WORLD_SIZE: a launcher sets both, or unset RANK");
  EXPECT_THAT(message(without(kTorchrun, "RANK")), HasSubstr("has WORLD_SIZE but not RANK"));
  EXPECT_EQ(message(with(kTorchrun, {{"RANK", "8"}})), "environment: RANK=8 is not below WORLD_SIZE=8");
  EXPECT_THAT(message(with(kTorchrun, {{"RANK", "two"}})), HasSubstr("RANK=two: expected a number"));
  EXPECT_THAT(message(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK=-1: expected a number"));
  EXPECT_THAT(message(with(kTorchrun, {{"RANK", "1x"}})), HasSubstr("RANK=1x"));
  EXPECT_THAT(message(with(kTorchrun, {{"RANK", ""}})), HasSubstr("RANK=: expected a number"));
  EXPECT_THAT(message(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0"));
  EXPECT_THAT(message(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
              HasSubstr("LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4"));
  EXPECT_THAT(message(without(kTorchrun, "MASTER_ADDR")), HasSubstr("not MASTER_ADDR"));
  EXPECT_THAT(message(without(kTorchrun, "MASTER_PORT")), HasSubstr("not MASTER_PORT"));
  EXPECT_THAT(message(with(kTorchrun, {{"MASTER_PORT", "70000"}})),
              HasSubstr("MASTER_PORT=70000: expected 1 to 65535"));
  EXPECT_THAT(message(without(kMpi, "OMPI_COMM_WORLD_SIZE")), HasSubstr("OMPI_COMM_WORLD_SIZE"));
  EXPECT_THAT(message(without(kSrun, "SLURM_PROCID")), HasSubstr("not SLURM_PROCID"));
  EXPECT_THAT(message(without(kSrun, "SLURM_STEP_NODELIST")), HasSubstr("SLURM_JOB_NODELIST"));
  EXPECT_THAT(message(with(kSrun, {{"SLURM_STEP_NODELIST", "n[1"}})), HasSubstr("host list 'n[1'"));
}

}  // namespace
}  // namespace partita
