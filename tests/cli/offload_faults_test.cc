// Optimizer states on a disk that fails, answers in part, is full or corrupts: a clear error and nothing lost, or the
// same run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kIllegal = 100, kLegal = 4096;  // bytes of short transfers; the latter are blocks

// Faults of the scratch files of one rank (tests/faults/fail_io.cc).
using Fault = std::map<std::string, std::string>;

class OffloadFaults : public testing::Test {
 protected:
  // Six steps, with a checkpoint after the second and the fourth.
  Result train(int ranks, const char* run, const Fault& fault, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "--train.device=cpu", "--train.steps=6",         "--checkpoint.every=2",    "--parallel.zero_stage=1",
        "--eval.every=0",     "--log.tensorboard=false", "--memory.optimizer=disk", "--checkpoint.keep_last=0"};
    arguments.push_back("--memory.disk_folder=" + scratch_.string());
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, std::string> environment = fault;
    environment.insert({{"OMP_NUM_THREADS", "1"}, {"LD_PRELOAD", PARTITA_FAIL_IO}, {"FAIL_UNDER", scratch_.string()}});
    return Process(command_line(train_command(ranks, folder_ / run, arguments)), environment)
        .end(std::chrono::seconds(60));
  }

  // Calls of this name that the last rank makes in a run without faults.
  int64_t count(int ranks, const std::string& call) {
    const fs::path file = folder_ / "count";
    const Result r = train(ranks, ("counted-" + call).c_str(),
                           {{"FAIL_CALL", call},
                            {"FAIL_COUNT", file.string()},
                            {"FAIL_WITH", number(EIO)},
                            {"FAIL_RANK", number(ranks - 1)}});
    EXPECT_EQ(r.code, 0) << r.error;
    fs::remove_all(folder_ / ("counted-" + call));
    return std::stoll(read_file(file));
  }

  static std::string number(int64_t value) { return std::to_string(value); }

  void expect_error(const Result& r, const std::string& what) {
    EXPECT_EQ(r.code, 1) << r.error;
    EXPECT_LT(r.seconds, 20);
    EXPECT_THAT(r.error, AllOf(HasSubstr("partita: "), HasSubstr(scratch_.string() + ": "), HasSubstr(what),
                               Not(HasSubstr("terminate called")), Not(HasSubstr("internal error"))));
    EXPECT_TRUE(fs::is_empty(scratch_));
  }

  // Goes on after a fault from the last checkpoint before it, and is the same run.
  void expect_resumes(int ranks, const char* run, const fs::path& expected) {
    const Result r = train(ranks, run, {});
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.output + r.error, HasSubstr("resuming from"));
    expect_same_run(folder_ / run, expected, 0);
    EXPECT_EQ(names_in(folder_ / run / "checkpoints"), names_in(expected / "checkpoints"));
  }

  TemporaryDirectory folder_;
  fs::path scratch_ = folder_ / "scratch";
};

TEST_F(OffloadFaults, AFullDiskIsAnErrorBeforeTheFirstStep) {
  const Result r = train(1, "run", {{"FAIL_CALL", "posix_fallocate"}, {"FAIL_AT", "1"}, {"FAIL_WITH", number(ENOSPC)}});
  expect_error(r, "of scratch data cannot be reserved: no space left on the device");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "checkpoints"));
}

TEST_F(OffloadFaults, EndARunAndItsCheckpointsStay) {
  for (const int ranks : {1, 2}) {
    const std::string expected = "expected-" + number(ranks);
    ASSERT_EQ(train(ranks, expected.c_str(), {}).code, 0);
    struct Case {
      const char* call;
      Fault fault;
      const char* said;
      bool of_ranks = false;
    };
    const std::vector<Case> cases = {
        {"pwrite", {{"FAIL_WITH", number(EIO)}}, "scratch data cannot be written: Input/output error", true},
        {"pwrite", {{"FAIL_WITH", number(ENOSPC)}}, "scratch data cannot be written: no space left on the device"},
        {"pwrite", {{"FAIL_WITH", number(EIO)}, {"FAIL_SHORT", number(kIllegal)}}, "scratch data: 100 of "},
        {"pread", {{"FAIL_WITH", number(EIO)}}, "scratch data cannot be read: Input/output error", true},
        {"pread", {{"FAIL_WITH", number(EIO)}, {"FAIL_SHORT", number(0)}}, "scratch data: 0 of "}};
    std::map<std::string, int64_t> counts;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto& [call, fault, said, of_ranks] = cases[i];
      if (ranks > 1 && !of_ranks) continue;  // mpirun takes seconds to end them
      if (!counts.contains(call)) counts[call] = count(ranks, call);
      // After the checkpoint of the fourth step, in the fifth and sixth.
      Fault at = fault;
      at.insert({{"FAIL_CALL", call},
                 {"FAIL_AT", number(counts[call] - static_cast<int64_t>(i))},
                 {"FAIL_RANK", number(ranks - 1)}});
      const std::string run = fmt::format("run-{}-{}", ranks, i);
      SCOPED_TRACE(run + ", " + call);
      const Result r = train(ranks, run.c_str(), at);
      expect_error(r, said);
      EXPECT_THAT(names_in(folder_ / run / "checkpoints"), testing::Contains("step-00000004"));
      EXPECT_THAT(names_in(folder_ / run / "checkpoints"), Not(testing::Contains("step-00000006")));
      expect_resumes(ranks, run.c_str(), folder_ / expected);
    }
  }
}

TEST_F(OffloadFaults, ShortTransfersAndInterruptionsAreTheSameRun) {
  ASSERT_EQ(train(1, "expected", {}).code, 0);
  int number_of_run = 0;
  for (const char* call : {"pread", "pwrite"})
    for (const Fault& fault : {Fault{{"FAIL_SHORT", number(kLegal)}, {"FAIL_EVERY", "1"}},
                               Fault{{"FAIL_SHORT", number(2 * kLegal)}, {"FAIL_EVERY", "3"}},
                               Fault{{"FAIL_WITH", number(EINTR)}, {"FAIL_EVERY", "2"}}}) {
      Fault always = fault;
      always.insert({{"FAIL_WITH", number(EIO)}, {"FAIL_CALL", call}, {"FAIL_AT", "1"}});
      const std::string run = fmt::format("run-{}", number_of_run++);
      SCOPED_TRACE(run + ", " + call);
      const Result r = train(1, run.c_str(), always, {"--debug.poison=true"});
      EXPECT_EQ(r.code, 0) << r.error;
      expect_same_run(folder_ / run, folder_ / "expected", 0);
    }
  const Result r =
      train(1, "fallocate", {{"FAIL_CALL", "posix_fallocate"}, {"FAIL_AT", "1"}, {"FAIL_WITH", number(EINTR)}});
  EXPECT_EQ(r.code, 0) << r.error;
}

// A bit that is read otherwise than it was written. Without debug.poison nobody looks.
TEST_F(OffloadFaults, DebugPoisonFindsWhatTheDiskChanged) {
  const int64_t last = count(1, "pread");
  const Result r = train(
      1, "run", {{"FAIL_CALL", "pread"}, {"FAIL_AT", number(last - 1)}, {"FAIL_WITH", number(EIO)}, {"FAIL_FLIP", "1"}},
      {"--debug.poison=true"});
  expect_error(r, "scratch data: the 4096 bytes read at byte ");
}

TEST_F(OffloadFaults, AFolderThatIsRemovedIsNoFault) {
  ASSERT_EQ(train(1, "expected", {}, {"--train.steps=100"}).code, 0);
  ASSERT_EQ(fs::remove_all(scratch_), 1U);  // and is created again
  Process process(command_line(train_command(
                      1, folder_ / "run",
                      {"--train.device=cpu", "--train.steps=100", "--checkpoint.every=50", "--parallel.zero_stage=1",
                       "--eval.every=0", "--log.every=1", "--log.tensorboard=false", "--memory.optimizer=disk",
                       "--memory.disk_folder=" + scratch_.string(), "--debug.delay_streams=1000"})),
                  {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, std::chrono::seconds(60))) << process.seen().error;
  ASSERT_EQ(fs::remove_all(scratch_), 1U) << "it has no name";
  ASSERT_FALSE(has_steps(process, 100)) << "it goes on";
  EXPECT_EQ(process.end(std::chrono::seconds(60)).code, 0) << process.seen().error;
  expect_same_run(folder_ / "run", folder_ / "expected", 0);
  EXPECT_FALSE(fs::exists(scratch_));
}

}  // namespace
}  // namespace partita::internal::test
