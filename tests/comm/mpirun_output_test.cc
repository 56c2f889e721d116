#include "partita/comm/mpirun_output.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::internal {
namespace {

const std::string kRule(74, '-');

// As Open MPI 4.1.4 prints it.
const std::string kKilled = kRule + R"(
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
)" + kRule + "\n" + kRule + R"(
mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).
)" + kRule + "\n";
const std::string kCode = kRule + R"(
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[3013,1],12]
  Exit code:    7
)" + kRule + "\n";
const std::string kAbort = kRule + R"(
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
)" + kRule + R"(
[vm:26441] 1 more process has sent help message help-mpi-api.txt / mpi-abort
[vm:26441] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages
mpirun: Forwarding signal 10 to job)";
const std::string kImproper = kRule + R"(
mpirun has exited due to process rank 1 with PID 0 on
node vm exiting improperly. There are three reasons this could occur:

1. this process did not call "init" before exiting, but others in
the job did. This can cause a job to hang indefinitely while it waits
for all processes to call "init". By rule, if one process calls "init",
then ALL processes must call "init" prior to termination.
)" + kRule + "\n";
const std::string kSlots = kRule + R"(
There are not enough slots available in the system to satisfy the 3
slots that were requested by the application:
)" + kRule + "\n";

struct Outcome {
  std::string shown;
  std::optional<MpirunOutput::End> end;
};

Outcome pass(const std::string& text, size_t piece) {
  MpirunOutput output;
  std::string shown;
  for (size_t at = 0; at < text.size(); at += piece) shown += output.pass(std::string_view(text).substr(at, piece));
  shown += output.rest();
  return {shown, output.end()};
}

// However the output is cut into pieces.
TEST(MpirunOutput, BannersBecomeFacts) {
  const std::string mine = "error: my disk is full\n[rank 2] hm\n--- not a rule\n";
  for (size_t piece : {1, 2, 7, 73, 74, 75, 100000}) {
    const Outcome killed = pass(mine + kKilled, piece);
    EXPECT_EQ(killed.shown, mine) << piece;
    ASSERT_TRUE(killed.end);
    EXPECT_EQ(killed.end->rank, 2);
    EXPECT_EQ(killed.end->signal, 9);

    const Outcome code = pass(kCode + mine, piece);
    EXPECT_EQ(code.shown, mine) << piece;
    ASSERT_TRUE(code.end);
    EXPECT_EQ(code.end->rank, 12);
    EXPECT_EQ(code.end->signal, 0);
    EXPECT_EQ(code.end->exit_code, 7);

    const Outcome improper = pass(kImproper + mine, piece);
    EXPECT_EQ(improper.shown, mine) << piece;
    ASSERT_TRUE(improper.end);
    EXPECT_EQ(improper.end->rank, 1);
    EXPECT_EQ(improper.end->exit_code, 0);

    const Outcome abort = pass(mine + kAbort, piece);
    EXPECT_EQ(abort.shown, mine) << piece;
    ASSERT_TRUE(abort.end);
    EXPECT_EQ(abort.end->rank, 3);
    EXPECT_EQ(abort.end->exit_code, 1);
  }
}

TEST(MpirunOutput, TheFirstCauseCounts) {
  const Outcome both = pass(kAbort + "\n" + kKilled, 10);
  ASSERT_TRUE(both.end);
  EXPECT_EQ(both.end->rank, 3);
}

TEST(MpirunOutput, OtherBannersAreShown) {
  for (size_t piece : {1, 50, 1000}) {
    const Outcome outcome = pass("a\n" + kSlots + "b\n", piece);
    EXPECT_EQ(outcome.shown, "a\n" + kSlots + "b\n");
    EXPECT_FALSE(outcome.end);
  }
}

TEST(MpirunOutput, NothingIsLostOfAProgramThatLikesDashes) {
  std::string text = kRule + "\n";
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(pass(text, 64).shown, text);
  EXPECT_EQ(pass(kRule + "\nshort", 64).shown, kRule + "\nshort");
}

// A progress bar writes parts of a line.
TEST(MpirunOutput, PartsOfALineAreNotHeldBack) {
  MpirunOutput output;
  EXPECT_EQ(output.pass("\rstep 1"), "\rstep 1");
  EXPECT_EQ(output.pass("\rstep 2"), "\rstep 2");
  EXPECT_EQ(output.pass("\n"), "\n");
  EXPECT_EQ(output.pass("[ho"), "");  // may become mpirun's
  EXPECT_EQ(output.pass("st] hello\n"), "[host] hello\n");
  EXPECT_EQ(output.pass("---"), "");
  EXPECT_EQ(output.pass("> done"), "---> done");
}

// A rank's progress bar comes as marked lines: the last one counts, however the output is cut.
TEST(MpirunOutput, TakesTheStatusOut) {
  for (size_t piece : {1, 7, 1000}) {
    MpirunOutput output;
    std::string shown;
    const std::string text = "a\n[partita] status: 10%\nb\n[partita] status: 20%\n[partita] stat\nc";
    for (size_t at = 0; at < text.size(); at += piece) shown += output.pass(std::string_view(text).substr(at, piece));
    EXPECT_EQ(output.status(), "20%");
    EXPECT_EQ(shown + output.rest(), "a\nb\n[partita] stat\nc");
    EXPECT_EQ(output.pass("\n[partita] status: \n"), "\n");
    EXPECT_EQ(output.status(), "");
  }
}

// A rank's farewell stands for mpirun's banner, which may be lost; it is not shown, and the first one counts.
TEST(MpirunOutput, TakesAFarewellOut) {
  MpirunOutput output;
  std::string shown;
  for (const char c :
       "error: the disk is full\n" + MpirunOutput::farewell(12, 1) + MpirunOutput::farewell(3, 7) + "[partita] rank\n")
    shown += output.pass({&c, 1});
  shown += output.rest();
  EXPECT_EQ(shown, "error: the disk is full\n[partita] rank\n");
  ASSERT_TRUE(output.end());
  EXPECT_EQ(output.end()->rank, 12);
  EXPECT_EQ(output.end()->exit_code, 1);
  EXPECT_EQ(output.end()->signal, 0);
}

}  // namespace
}  // namespace partita::internal
