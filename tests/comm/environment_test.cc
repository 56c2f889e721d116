#include "partita/comm/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
using Kind = Launch::Kind;
using Variables = std::map<std::string, std::string>;

Launch detect(const Variables& variables, const std::vector<std::string>& ancestors = {}) {
  const Lookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return detect_launch(lookup, [&] { return ancestors; });
}

std::string message(const Variables& variables, const std::vector<std::string>& ancestors = {}) {
  try {
    (void)detect(variables, ancestors);
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
  EXPECT_EQ(launch.ports, 1);
  EXPECT_EQ(launch.hosts, Launch::Hosts::several);
  EXPECT_FALSE(launch.agent_store);
  EXPECT_EQ(launch.job, "torchrun abc attempt  port 29500");
  EXPECT_EQ(launch.secret, "");
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
  EXPECT_EQ(launch.job, "slurm 17.2 attempt 0");
  EXPECT_EQ(launch.ports, 16);
  EXPECT_EQ(launch.hosts, Launch::Hosts::several);
  EXPECT_EQ(detect(with(kSrun, {{"SLURM_STEP_NODELIST", "n04"}})).hosts, Launch::Hosts::one);
  EXPECT_EQ(detect(with(kSrun, {{"PARTITA_JOB_KEY", "abc"}})).secret, "abc");
  EXPECT_NE(detect(with(kSrun, {{"SLURM_RESTART_COUNT", "1"}})).job, launch.job);
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

const Variables kByHand = without(kTorchrun, "TORCHELASTIC_RUN_ID");
const Variables kHydra = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}};

Variables all(std::initializer_list<Variables> sets) {
  Variables together;
  for (const Variables& set : sets) together = with(std::move(together), set);
  return together;
}

// Launchers within launchers: whose variables are set, which program is the nearest, and who counts.
TEST(DetectLaunch, TheInnermostLauncherCounts) {
  struct Case {
    const char* name;
    Variables variables;
    std::vector<std::string> ancestors;
    Kind kind;
    int rank, size;
  };
  const Variables pmi2 = {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}};
  const Variables alone = {{"WORLD_SIZE", "1"}};
  const std::vector<std::string> none;
  for (const Case& c : std::initializer_list<Case>{
           {"mpirun in a step", all({kSrun, kMpi}), none, Kind::open_mpi, 3, 4},
           {"mpirun in sbatch", all({kSrun, kMpi}), {"orted", "slurmstepd"}, Kind::open_mpi, 3, 4},
           {"srun in a shell of mpirun", all({kSrun, kMpi}), {"slurmstepd"}, Kind::slurm, 4, 5},
           {"torchrun in a step", all({kSrun, kTorchrun}), none, Kind::torchrun, 5, 8},
           {"torchrun in a step, seen", all({kSrun, kTorchrun}), {"torchrun", "slurmstepd"}, Kind::torchrun, 5, 8},
           {"torchrun in mpirun", all({kMpi, kTorchrun}), none, Kind::torchrun, 5, 8},
           {"torchrun in mpirun, seen", all({kMpi, kTorchrun}), {"bash", "torchrun", "mpirun"}, Kind::torchrun, 5, 8},
           {"mpirun in torchrun", all({kMpi, kTorchrun}), {"bash", "mpirun", "torchrun"}, Kind::open_mpi, 3, 4},
           {"launch in torchrun", all({kMpi, kTorchrun}), {"mpirun", "partita", "torchrun"}, Kind::open_mpi, 3, 4},
           {"all three", all({kSrun, kMpi, kTorchrun}), {"torchrun", "mpirun", "slurmstepd"}, Kind::torchrun, 5, 8},
           {"srun with variables by hand", all({kSrun, kByHand}), {"slurmstepd"}, Kind::torchrun, 5, 8},
           {"srun --mpi=pmi2", all({kSrun, pmi2}), {"slurmstepd"}, Kind::slurm, 4, 5},
           {"mpiexec of MPICH with variables by hand", all({kHydra, kByHand}), none, Kind::torchrun, 5, 8},
           {"torchrun in MPICH", all({kHydra, kTorchrun}), {"torchrun", "hydra_pmi_proxy"}, Kind::torchrun, 5, 8},
           {"mpirun in MPICH", all({kHydra, kMpi}), {"mpirun", "hydra_pmi_proxy"}, Kind::open_mpi, 3, 4},
           {"MPICH alone", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, none, Kind::single, 0, 1},
           {"Open MPI 5", with(kMpi, {{"PMIX_RANK", "3"}}), none, Kind::open_mpi, 3, 4},
           {"WORLD_SIZE=1 of a cluster", alone, none, Kind::single, 0, 1},
           {"the same with RANK", with(alone, {{"RANK", "0"}}), none, Kind::single, 0, 1},
           {"the same around mpirun", all({alone, kMpi}), none, Kind::open_mpi, 3, 4},
           {"the same around srun", all({alone, kSrun}), none, Kind::slurm, 4, 5},
           {"mpirun with its own numbers",
            with(kMpi, {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}), none,
            Kind::open_mpi, 3, 4},
           {"mpirun with half of them", with(kMpi, {{"RANK", "7"}}), none, Kind::open_mpi, 3, 4},
           {"one mpirun a host, numbers by hand",
            all({{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, kByHand}), none, Kind::torchrun, 5,
            8}}) {
    const Launch launch = detect(c.variables, c.ancestors);
    EXPECT_EQ(launch.kind, c.kind) << c.name;
    EXPECT_EQ(launch.rank, c.rank) << c.name;
    EXPECT_EQ(launch.size, c.size) << c.name;
  }
}

TEST(DetectLaunch, RanksOfOtherLaunchersAreRefused) {
  EXPECT_EQ(
      message(kHydra),
      "this process was started by the mpiexec of MPICH, Intel MPI or another library with PMI (PMI_RANK=1 and "
      "PMI_SIZE=2), whose ranks cannot work together here, so that each would train alone: start them by `partita "
      "launch`, Open MPI's mpirun, srun or torchrun; to run one process alone, unset PMI_RANK");
  const auto refused = [](const Variables& variables) { return message(variables); };
  EXPECT_THAT(
      refused({{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}),
      HasSubstr("by MVAPICH (MV2_COMM_WORLD_RANK=0 and MV2_COMM_WORLD_SIZE=2)"));
  EXPECT_THAT(refused({{"PALS_RANKID", "3"}}), HasSubstr("by Cray's PALS (PALS_RANKID=3)"));
  EXPECT_THAT(refused({{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "4"}}), HasSubstr("by IBM's jsrun"));
  EXPECT_THAT(refused({{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "4"}}), HasSubstr("by Flux"));
  EXPECT_THAT(refused({{"PMIX_RANK", "0"}}), HasSubstr("Fujitsu"));
  // MPICH's mpiexec in a Slurm job: its helper is a task of a step, its ranks are not.
  EXPECT_THAT(message(with(kSrun, kHydra), {"hydra_pmi_proxy", "slurmstepd"}), HasSubstr("by the mpiexec of MPICH"));
  EXPECT_THAT(message(with(kSrun, kHydra)), HasSubstr("by the mpiexec of MPICH"));
  // A leftover without a rank is nothing.
  EXPECT_EQ(detect({{"PMI_SIZE", "2"}}).kind, Kind::single);
}

TEST(DetectLaunch, ContradictionsAreNamed) {
  EXPECT_EQ(
      message(all({kMpi, kByHand})),
      "the environment has OMPI_COMM_WORLD_RANK=3 of OMPI_COMM_WORLD_SIZE=4 of mpirun, and RANK=5 of WORLD_SIZE=8: "
      "unset those of the launcher that does not count");
  EXPECT_EQ(message(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})),
            "environment: LOCAL_WORLD_SIZE=9 is above WORLD_SIZE=8");
  EXPECT_EQ(message(with(without(kTorchrun, "LOCAL_WORLD_SIZE"), {{"LOCAL_RANK", "8"}})),
            "environment: LOCAL_RANK=8 is not below WORLD_SIZE=8");
}

TEST(DetectLaunch, NumbersOfRanksHaveALimit) {
  EXPECT_EQ(message(with(kTorchrun, {{"WORLD_SIZE", "2000000000"}})),
            "environment variable WORLD_SIZE=2000000000: expected 1 to 65536 ranks");
  EXPECT_THAT(message(with(kTorchrun, {{"WORLD_SIZE", "20000000000"}})),
              HasSubstr("expected a number from 0 to 2147483647"));
  EXPECT_THAT(message(with(kMpi, {{"OMPI_COMM_WORLD_SIZE", "65537"}})), HasSubstr("1 to 65536"));
  EXPECT_EQ(detect(with(kTorchrun, {{"WORLD_SIZE", "65536"}})).size, 65536);
}

// The part of the key that variables give: the same on all ranks of a job, another for neighbours and other attempts.
TEST(DetectLaunch, JobsDiffer) {
  const std::string job = detect(kTorchrun).job;
  EXPECT_EQ(detect(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}})).job, job);
  EXPECT_NE(detect(with(kTorchrun, {{"MASTER_PORT", "29501"}})).job, job);
  EXPECT_NE(detect(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "abd"}})).job, job);
  EXPECT_NE(detect(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job, job);
  EXPECT_EQ(detect(with(kTorchrun, {{"PARTITA_JOB_KEY", "s3cret"}})).secret, "s3cret");
  EXPECT_TRUE(detect(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).agent_store);
  EXPECT_FALSE(detect(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
  EXPECT_EQ(detect(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}})).hosts, Launch::Hosts::one);
  EXPECT_EQ(detect(without(kTorchrun, "LOCAL_WORLD_SIZE")).hosts, Launch::Hosts::unknown);
}

TEST(Ancestors, ProgramsHaveNames) {
  using namespace std::string_literals;
  EXPECT_EQ(program_name("mpirun", "mpirun\0-n\0002\0"s), "mpirun");
  EXPECT_EQ(program_name("python3", "/usr/bin/python3\0/usr/local/bin/torchrun\0--nproc-per-node\0002\0"s), "torchrun");
  EXPECT_EQ(program_name("python3.11", "python\0-m\0torch.distributed.run\0x.py\0"s), "torchrun");
  EXPECT_EQ(program_name("pt_main_thread", "/usr/bin/python3\0/usr/local/bin/torchrun\0"s), "torchrun");
  EXPECT_EQ(program_name("python3", "python3\0train.py\0--out\0torchrun\0"s), "python3");
  EXPECT_EQ(program_name("bash", "bash\0-c\0torchrun\0"s), "bash");
  EXPECT_TRUE(is_open_mpi_launcher("orted"));
  EXPECT_FALSE(is_open_mpi_launcher("bash"));
  EXPECT_FALSE(process_ancestors().empty());  // this test has a parent
}

TEST(DetectLaunch, ErrorsNameTheVariable) {
  EXPECT_EQ(message(without(kTorchrun, "WORLD_SIZE")),
            "the environment has RANK but not WORLD_SIZE: a launcher sets both, or unset RANK");
  EXPECT_THAT(message(without(kTorchrun, "RANK")), HasSubstr("has WORLD_SIZE but not RANK"));
  EXPECT_THAT(message(without(kByHand, "RANK")), HasSubstr("has WORLD_SIZE but not RANK"));
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
}  // namespace partita::internal
