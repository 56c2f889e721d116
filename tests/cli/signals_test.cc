// Signals, and streams that are closed or that nobody reads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(Streams, ThatAreClosedDoNotReachTheRunsFiles) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const char* closed : {">&-", "2>&-", "<&- >&- 2>&-"}) {
    const fs::path run = folder / std::to_string(number++);
    const std::string command =
        fmt::format("exec '{}' train '{}' '{}' {}", PARTITA_PROGRAM, SmallRun::get().config(), run_in(run), closed);
    ASSERT_EQ(Process({"/bin/sh", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60)).code, 0) << closed;
    EXPECT_EQ(metrics(run).size(), 12U) << closed;
    EXPECT_EQ(partita(train_command(1, run, {"--train.steps=14"})).code, 0) << closed;
  }
}

// A run is worth more than its output.
TEST(Streams, ThatNobodyReadsDoNotEndTheRun) {
  const TemporaryDirectory folder;
  int number = 0;
  // A pipe whose reader has ended, and a disk that is full.
  for (const char* output : {"exec 3> >(true); wait $!", "exec 3> /dev/full"}) {
    const fs::path run = folder / std::to_string(number++);
    const std::string command = fmt::format("{}; exec '{}' train '{}' '{}' >&3", output, PARTITA_PROGRAM,
                                            SmallRun::get().config(), run_in(run));
    const Result r = Process({"/bin/bash", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60));
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("cannot write to standard output"));
    EXPECT_EQ(metrics(run).size(), 12U);
  }
  // Of what is only printed, the loss is an error.
  const Result r =
      Process({"/bin/sh", "-c",
               fmt::format("'{}' checkpoint inspect '{}' > /dev/full", PARTITA_PROGRAM, (folder / "0").string())})
          .end(seconds(60));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST(Signals, AHangUpSavesUnlessItIsIgnored) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  {
    Process process(long_run(1, run), {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
    kill(process.pid(), SIGHUP);
    EXPECT_EQ(process.end(seconds(30)).code, 75);
    EXPECT_TRUE(fs::exists(run / "checkpoints" / fmt::format("step-{:08d}", metrics(run).size())));
  }
  std::vector<std::string> command = long_run(1, run);
  command.insert(command.begin(), "nohup");
  Process process(command, {{"OMP_NUM_THREADS", "1"}});
  const auto steps = static_cast<int>(metrics(run).size());
  ASSERT_TRUE(process.until([&] { return has_steps(process, steps + 1); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGHUP);
  ASSERT_TRUE(process.until([&] { return has_steps(process, steps + 5); }, seconds(60))) << "it goes on";
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.end(seconds(30)).code, 75);
}

TEST(Signals, ASecondCtrlCEndsAtOnce) {
  const TemporaryDirectory folder;
  // Steps so long that the first is not done in the time of the test.
  Process process(command_line(train_command(
                      1, folder / "run", {"--train.global_batch=200000", "--eval.every=0", "--data.split=100,0,0"})),
                  {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(
      process.until([&] { return process.seen().output.find("Running training") != std::string::npos; }, seconds(60)))
      << process.seen().error;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(process.pid(), SIGINT);
  ASSERT_TRUE(process.until([&] { return process.seen().error.find("Ctrl-C again stops now") != std::string::npos; },
                            seconds(20)));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.end(seconds(20)).code, 130);
}

// Other commands leave nothing half written.
TEST(Signals, EndCommandsThatWriteFilesWithoutLeavingAny) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "out");
  ASSERT_EQ(::mkfifo((folder / "text.jsonl").c_str(), 0666), 0);
  // Its input neither comes nor ends.
  Process process({"/bin/sh", "-c",
                   fmt::format("exec '{}' tokenize --input - --tokenizer '{}' --output-prefix '{}' 0<> '{}'",
                               PARTITA_PROGRAM, SmallRun::get().tokenizer().string(), (folder / "out/tokens").string(),
                               (folder / "text.jsonl").string())});
  ASSERT_TRUE(process.until([&] { return !fs::is_empty(folder / "out"); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.end(seconds(20)).code, 130);
  EXPECT_TRUE(fs::is_empty(folder / "out")) << names_in(folder / "out").front();
}

}  // namespace
}  // namespace partita::internal::test
