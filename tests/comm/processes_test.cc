// Jobs of several processes: ranks over TCP with torchrun's variables, ranks started by mpirun through launch(), and
// how the other ranks react when one misbehaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <utility>

#include "partita/comm/socket.h"
#include "tests/comm/processes.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kSoon = 30s;  // a few seconds, on a busy machine

// No variable of a launcher that the test itself may run under.
std::map<std::string, std::string> clean() {
  std::map<std::string, std::string> variables = {{"OMP_NUM_THREADS", "1"}};
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
        "PARTITA_JOB_KEY", "PMI_RANK", "PMIX_RANK"})
    variables[name] = "";
  return variables;
}

int free_port() { return port_of(*listen_on("127.0.0.1", 0)); }

Process start_rank(int rank, int size, int port, const std::string& mode, const std::string& seconds) {
  auto variables = clean();
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(size);
  variables["MASTER_ADDR"] = "localhost";
  variables["MASTER_PORT"] = std::to_string(port);
  return Process({PARTITA_RANK_PROGRAM, mode, seconds}, variables);
}

// All ranks of a job over TCP; the last to start is rank 0, which the others wait for.
std::vector<Ended> run_ranks(int size, const std::string& mode, const std::string& seconds = "60",
                             int waited_for = -1) {
  const int port = free_port();
  std::vector<Process> ranks;
  for (int r = size - 1; r >= 0; --r) ranks.push_back(start_rank(r, size, port, mode, seconds));
  std::vector<Ended> ended(static_cast<size_t>(size));
  for (int r = 0; r < (waited_for < 0 ? size : waited_for); ++r)
    ended[static_cast<size_t>(r)] = ranks[static_cast<size_t>(size - 1 - r)].wait(kSoon);
  return ended;
}

TEST(TcpRanks, FindEachOther) {
  for (int size = 1; size <= 4; ++size) {
    const std::vector<Ended> ended = run_ranks(size, "hello");
    for (int r = 0; r < size; ++r) {
      const Ended& rank = ended[static_cast<size_t>(r)];
      EXPECT_EQ(rank.exit_code, 0) << rank.output;
      EXPECT_EQ(rank.output, "rank " + std::to_string(r) + " of " + std::to_string(size) + " (local " +
                                 std::to_string(r) + " of " + std::to_string(size) + "): sum " +
                                 std::to_string(size * (size + 1) / 2) + "\n");
    }
  }
}

TEST(TcpRanks, KillOfARankEndsTheOthers) {
  const std::vector<Ended> ended = run_ranks(3, "kill");
  EXPECT_EQ(ended[2].signal, SIGKILL);
  for (size_t r : {0U, 1U}) {
    EXPECT_EQ(ended[r].exit_code, 1);
    EXPECT_THAT(ended[r].output,
                AllOf(HasSubstr("error: all-gather no. 2 of the data-parallel ranks: rank 2 (process "),
                      HasSubstr(" ended unexpectedly: its connection is closed")));
  }
}

TEST(TcpRanks, AnErrorOfARankEndsTheOthers) {
  const std::vector<Ended> ended = run_ranks(3, "throw");
  for (const Ended& rank : ended) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_THAT(ended[2].output, HasSubstr("error: the disk of rank 2 is full"));
  for (size_t r : {0U, 1U})
    EXPECT_THAT(ended[r].output, HasSubstr(": rank 2 ended with exit code 1: the disk of rank 2 is full"));
}

TEST(TcpRanks, LeavingTooEarlyIsNamed) {
  const std::vector<Ended> ended = run_ranks(2, "leave", "5");
  EXPECT_EQ(ended[0].exit_code, 1);
  EXPECT_THAT(ended[0].output, HasSubstr("has finished, but this rank still expects messages from it"));
}

TEST(TcpRanks, AnExitWithoutAWordIsNamed) {
  const std::vector<Ended> ended = run_ranks(3, "early");
  EXPECT_EQ(ended[2].exit_code, 0);
  for (size_t r : {0U, 1U}) {
    EXPECT_EQ(ended[r].exit_code, 1);
    EXPECT_THAT(ended[r].output, AllOf(HasSubstr("all-gather no. 2 of the data-parallel ranks: rank 2 (process "),
                                       HasSubstr(" ended unexpectedly")));
  }
}

TEST(TcpRanks, ARankThatDoesNotEndIsNamed) {
  const std::vector<Ended> ended = run_ranks(2, "late", "2", /*waited_for=*/1);
  EXPECT_EQ(ended[0].exit_code, 1);
  EXPECT_THAT(ended[0].output, HasSubstr(" did not finish within 2 s"));
}

// The numbers of ranks that a stranger's or a broken environment says are checked before memory is taken for them.
TEST(TcpRanks, TooManyRanksAreRefused) {
  auto variables = clean();
  variables["RANK"] = "0";
  variables["WORLD_SIZE"] = "2000000000";
  const Ended ended = Process({PARTITA_RANK_PROGRAM, "hello"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("error: environment variable WORLD_SIZE=2000000000: expected 1 to 65536 ranks"));
}

TEST(ForeignRanks, AreRefused) {
  auto variables = clean();
  variables["PMI_RANK"] = "0";
  variables["PMI_SIZE"] = "2";
  const Ended ended = Process({PARTITA_RANK_PROGRAM, "hello"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("error: this process was started by the mpiexec of MPICH"));
}

TEST(TcpRanks, AHangNamesCollectiveAndMissingRank) {
  const std::vector<Ended> ended = run_ranks(3, "hang", "2", /*waited_for=*/2);
  for (size_t r : {0U, 1U}) {
    EXPECT_EQ(ended[r].exit_code, 1);
    // The second of the two may hear it from the first.
    EXPECT_THAT(ended[r].output,
                AllOf(HasSubstr("error: all-gather no. 2 of the data-parallel ranks"),
                      HasSubstr("(48 bytes) did not finish within 2 s"), HasSubstr(": rank 2 did not arrive")));
  }
}

TEST(TcpRanks, DifferentCollectivesAreNamed) {
  const std::vector<Ended> ended = run_ranks(2, "elsewhere", "2");
  EXPECT_THAT(ended[0].output + ended[1].output,
              testing::AnyOf(HasSubstr("all-gather no. 2 of the data-parallel ranks (32 bytes) did not finish within 2 "
                                       "s (parallel.timeout_seconds): rank 1 waits in "
                                       "barrier no. 0 of all ranks"),
                             HasSubstr("barrier no. 0 of all ranks (0 bytes) did not finish within 2 s "
                                       "(parallel.timeout_seconds): rank 0 waits in "
                                       "all-gather no. 2 of the data-parallel ranks")));
  for (const Ended& rank : ended) EXPECT_EQ(rank.exit_code, 1);
}

TEST(TcpRanks, DifferentSizesAreNamed) {
  const std::vector<Ended> ended = run_ranks(2, "sizes");
  EXPECT_THAT(ended[0].output + ended[1].output, HasSubstr("all-gather no. 2 of the data-parallel ranks: rank "));
  EXPECT_THAT(ended[0].output + ended[1].output,
              HasSubstr("the ranks differ in the order or the sizes of their calls"));
}

TEST(TcpRanks, ARankThatNeverComesIsNamed) {
  const int port = free_port();
  Process zero = start_rank(0, 3, port, "hello", "2"), two = start_rank(2, 3, port, "hello", "2");
  const Ended ended = zero.wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("for the 3 ranks of the job: these did not connect in time: 1"));
  EXPECT_EQ(two.wait(kSoon).exit_code, 1);
}

TEST(TcpRanks, AMissingRankZeroIsNamed) {
  const int port = free_port();
  const Ended ended = start_rank(1, 2, port, "hello", "1").wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("rank 1 did not find rank 0 at localhost port " + std::to_string(port)));
}

TEST(TcpRanks, AWrongEnvironmentIsNamed) {
  auto variables = clean();
  variables["RANK"] = "1";
  const Ended ended = Process({PARTITA_RANK_PROGRAM, "hello"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("error: the environment has RANK but not WORLD_SIZE"));
}

// torchrun's variables for its workers, in the environment of a rank of mpirun: torchrun is the nearer one.
TEST(NestedRanks, TorchrunInsideOfMpirun) {
  const int port = free_port();
  std::vector<Process> ranks;
  for (int r : {0, 1}) {
    auto variables = clean();
    variables["RANK"] = std::to_string(r);
    variables["LOCAL_RANK"] = std::to_string(r);
    variables["WORLD_SIZE"] = "2";
    variables["LOCAL_WORLD_SIZE"] = "2";
    variables["MASTER_ADDR"] = "localhost";
    variables["MASTER_PORT"] = std::to_string(port);
    variables["TORCHELASTIC_RUN_ID"] = "none";
    variables["OMPI_COMM_WORLD_RANK"] = "0";
    variables["OMPI_COMM_WORLD_SIZE"] = "1";
    ranks.emplace_back(std::vector<std::string>{PARTITA_RANK_PROGRAM, "hello"}, variables);
  }
  for (Process& rank : ranks) {
    const Ended ended = rank.wait(kSoon);
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(" of 2 "));
  }
}

// mpirun inside of a worker of torchrun: mpirun is the nearer one.
TEST(NestedRanks, MpirunInsideOfTorchrun) {
  auto variables = clean();
  variables["RANK"] = "0";
  variables["WORLD_SIZE"] = "3";
  variables["MASTER_ADDR"] = "localhost";
  variables["MASTER_PORT"] = std::to_string(free_port());
  variables["TORCHELASTIC_RUN_ID"] = "none";
  variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
  variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  const Ended ended =
      Process({"mpirun", "-n", "2", "--oversubscribe", PARTITA_RANK_PROGRAM, "hello"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("rank 0 of 2"), HasSubstr("rank 1 of 2")));
}

TEST(NestedRanks, LaunchInsideOfAJobIsRefused) {
  auto variables = clean();
  variables["RANK"] = "1";
  variables["WORLD_SIZE"] = "2";
  variables["MASTER_ADDR"] = "localhost";
  variables["MASTER_PORT"] = "29500";
  const Ended ended = Process({PARTITA_RANK_PROGRAM, "launch", "2", "hello", "60"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("this is rank 1 of a job already"));
}

Ended launch_ranks(const std::string& ranks, const std::string& mode, const std::string& seconds) {
  return Process({PARTITA_RANK_PROGRAM, "launch", ranks, mode, seconds}, clean()).wait(kSoon);
}

TEST(LaunchedRanks, RunAndEndWell) {
  const Ended ended = launch_ranks("3", "hello", "60");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  for (const char* line : {"rank 0 of 3 (local 0 of 3): sum 6\n", "rank 1 of 3 (local 1 of 3): sum 6\n",
                           "rank 2 of 3 (local 2 of 3): sum 6\n"})
    EXPECT_THAT(ended.output, HasSubstr(line));
}

// Words that mpirun would take for its own arrive as they are: ":" would start another program.
TEST(LaunchedRanks, ArgumentsArriveAsTheyAre) {
  const std::vector<std::string> words = {":",   "-n",        "1",    "/bin/echo", "started", "",
                                          "a b", "'\"$HOME",  "=x",   "--tune",    "-mca",    "--",
                                          "-x",  "--version", "%s\\", "*"};
  std::vector<std::string> command = {PARTITA_RANK_PROGRAM, "launch", "1", "arguments"};
  std::string expected = "'arguments'\n";
  for (const std::string& word : words) {
    command.push_back(word);
    expected += "'" + word + "'\n";
  }
  const Ended ended = Process(command, clean()).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(ended.output, expected);
}

TEST(LaunchedRanks, AnExitWithoutAWordIsNamed) {
  const Ended ended = launch_ranks("2", "early", "60");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("error: rank 1 of 2 ended before the others"), Not(HasSubstr("-----"))));
}

// One clear line in the place of mpirun's banners.
TEST(LaunchedRanks, AKilledRankIsNamed) {
  const Ended ended = launch_ranks("2", "kill", "60");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("error: rank 1 of 2 was ended by signal 9"), Not(HasSubstr("-----"))));
}

TEST(LaunchedRanks, ARankThatFailsSpeaksForItself) {
  const Ended ended = launch_ranks("2", "throw", "60");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("error: the disk of rank 1 is full\n"),
                    HasSubstr("error: rank 1 of 2 failed (exit code 1, see above)"), Not(HasSubstr("MPI_ABORT"))));
}

TEST(LaunchedRanks, WrongUsageKeepsItsCode) {
  EXPECT_EQ(launch_ranks("2", "code2", "60").exit_code, 2);
  EXPECT_EQ(launch_ranks("2", "code7", "60").exit_code, 1);
}

TEST(LaunchedRanks, AHangEndsWithTheMissingRank) {
  const Ended ended = launch_ranks("2", "hang", "2");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("all-gather no. 2 of the data-parallel ranks (32 bytes) did not finish within 2 "
                                      "s (parallel.timeout_seconds): rank 1 did not arrive"));
}

// After its last collective a rank has nothing to wait for but the end of the others.
TEST(LaunchedRanks, ARankThatDoesNotEndIsNamed) {
  const Ended ended = launch_ranks("2", "late", "2");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("barrier no. 0 of all ranks at the end (0 bytes) did not finish within 2 s "
                                      "(parallel.timeout_seconds): rank 1 did not arrive"));
}

// When both have said hello they wait for the signal, or are about to.
Ended interrupt_ranks(const std::string& mode) {
  Process launcher({PARTITA_RANK_PROGRAM, "launch", "2", mode, "60"}, clean());
  for (int i = 0; i < 2000; ++i) {
    const std::string output = launcher.output();
    if (output.find("rank 0 of 2") != output.npos && output.find("rank 1 of 2") != output.npos) break;
    std::this_thread::sleep_for(10ms);
  }
  launcher.interrupt();
  return launcher.wait(kSoon);
}

TEST(LaunchedRanks, AnInterruptBeforeTheyHandleItIsNoCrash) {
  const Ended ended = interrupt_ranks("starting");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("error: stopped by an interrupt before the ranks had begun"));
  EXPECT_THAT(ended.output, AllOf(Not(HasSubstr("ended by signal")), Not(HasSubstr("-----"))));
}

TEST(LaunchedRanks, AnInterruptLetsThemEndInOrder) {
  const Ended ended = interrupt_ranks("interrupt");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("rank 0 was interrupted\n"), HasSubstr("rank 1 was interrupted\n")));
  EXPECT_THAT(ended.output, Not(HasSubstr("Forwarding")));
}

TEST(LaunchedRanks, WithoutMpirunTheErrorSaysWhatToInstall) {
  auto variables = clean();
  variables["PATH"] = "/nonexistent";
  const Ended ended = Process({PARTITA_RANK_PROGRAM, "launch", "2", "hello", "60"}, variables).wait(kSoon);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.output, HasSubstr("mpirun is not on PATH: install Open MPI"));
}

}  // namespace
}  // namespace partita::internal
