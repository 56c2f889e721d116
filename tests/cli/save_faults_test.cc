// A disk that fails while a run saves: the run goes on, saves again, and is the run that it would have been; or it ends
// with one sentence, and what was saved before is there.
#include <gmock/gmock.h>

#include <cerrno>
#include <map>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Faults below the folder of checkpoints (tests/faults/fail_io.cc).
using Fault = std::map<std::string, std::string>;

std::string number(int64_t value) { return std::to_string(value); }

class SaveFaults : public testing::Test {
 protected:
  // Twelve steps, with a checkpoint after every third.
  Result train(int ranks, const fs::path& run, const Fault& fault, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "--train.steps=12",        "--checkpoint.every=3",          "--checkpoint.keep_last=0",
        "--parallel.zero_stage=1", "--parallel.timeout_seconds=20", "--eval.every=0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, std::string> environment = fault;
    environment.insert(
        {{"OMP_NUM_THREADS", "1"}, {"LD_PRELOAD", PARTITA_FAIL_IO}, {"FAIL_UNDER", (run / "checkpoints").string()}});
    return Process(command_line(train_command(ranks, run, arguments)), environment).end(std::chrono::seconds(90));
  }

  TemporaryDirectory folder_;
};

// The first write of the last rank fails. Its save is repeated after the next step.
TEST_F(SaveFaults, OneIsRepeated) {
  for (const int ranks : {1, 2}) {
    const fs::path expected = folder_ / ("expected-" + number(ranks));
    ASSERT_EQ(train(ranks, expected, {}).code, 0);
    for (const char* background : {"true", "false"})
      for (const char* call : {"write", "fsync"}) {
        const fs::path run = folder_ / (std::string(call) + background + number(ranks));
        const Result r =
            train(ranks, run,
                  {{"FAIL_CALL", call}, {"FAIL_AT", "1"}, {"FAIL_WITH", number(EIO)}, {"FAIL_RANK", number(ranks - 1)}},
                  {std::string("--checkpoint.background=") + background});
        ASSERT_EQ(r.code, 0) << r.error;
        EXPECT_THAT(r.error,
                    AllOf(HasSubstr("could not save the checkpoint of step 3: "), HasSubstr("Input/output error; ")));
        // Written in the background, a failure may show after several steps; then the next save repeats it.
        const std::vector<std::string> names = names_in(run / "checkpoints");
        EXPECT_THAT(names, Not(testing::Contains("step-00000003")));
        for (const char* kept : {"step-00000006", "step-00000009", "step-00000012"})
          EXPECT_THAT(names, testing::Contains(kept));
        if (std::string(background) == "false") {
          EXPECT_THAT(r.error, HasSubstr("Input/output error; trying again after the next step"));
          EXPECT_THAT(names, ElementsAre("step-00000004", "step-00000006", "step-00000009", "step-00000012"));
        }
        EXPECT_EQ(metrics(run), metrics(expected));
        EXPECT_EQ(partita({"checkpoint", "diff", (run / "checkpoints/step-00000012").string(),
                           (expected / "checkpoints/step-00000012").string()})
                      .code,
                  0);
        for (const std::string& name : names)
          EXPECT_EQ(partita({"checkpoint", "verify", (run / "checkpoints" / name).string()}).code, 0) << name;
      }
  }
}

// The disk is full from some time on: training goes on to the end, whose checkpoint is missed; the one before is whole.
TEST_F(SaveFaults, ADiskThatStaysFullIsAnErrorAtTheEnd) {
  for (const int ranks : {1, 2})
    for (const char* background : {"true", "false"}) {
      const fs::path run = folder_ / (std::string(background) + number(ranks));
      ASSERT_EQ(train(ranks, run, {}, {"--train.steps=6"}).code, 0);
      const Result r = train(ranks, run,
                             {{"FAIL_CALL", "write"},
                              {"FAIL_AT", "1"},
                              {"FAIL_EVERY", "1"},
                              {"FAIL_WITH", number(ENOSPC)},
                              {"FAIL_RANK", number(ranks - 1)}},
                             {std::string("--checkpoint.background=") + background});
      EXPECT_EQ(r.code, 1) << r.error;
      EXPECT_THAT(r.error, AllOf(HasSubstr("could not save the checkpoint of step 9"),
                                 HasSubstr("could not save the checkpoint of step 12"), HasSubstr("; trying again now"),
                                 HasSubstr("partita: "), HasSubstr("no space left on the device"),
                                 Not(HasSubstr("internal error"))));
      EXPECT_EQ(metrics(run).size(), 12U);
      EXPECT_THAT(names_in(run / "checkpoints"), ElementsAre("step-00000003", "step-00000006"));
      // Once there is space, the same command repeats what was lost.
      ASSERT_EQ(train(ranks, run, {}).code, 0);
      EXPECT_EQ(partita({"checkpoint", "verify", run.string()}).code, 0);
    }
}

// Five due checkpoints in a row are missed: nobody would notice what is lost.
TEST_F(SaveFaults, ManyInARowEndTheRun) {
  const fs::path run = folder_ / "run";
  const Result r = train(2, run,
                         {{"FAIL_CALL", "write"},
                          {"FAIL_AT", "1"},
                          {"FAIL_EVERY", "1"},
                          {"FAIL_WITH", number(ENOSPC)},
                          {"FAIL_RANK", "1"}},
                         {"--train.steps=40", "--checkpoint.background=false"});
  EXPECT_EQ(r.code, 1) << r.error;
  EXPECT_THAT(r.error, HasSubstr("5 checkpoints in a row could not be saved, up to step 15"));
  EXPECT_EQ(metrics(run).size(), 15U);
}

// Figures are no part of a checkpoint.
TEST_F(SaveFaults, FiguresThatAreNotDurableAreAWarning) {
  const fs::path run = folder_ / "run";
  Fault fault = {{"FAIL_CALL", "fsync"}, {"FAIL_AT", "1"}, {"FAIL_WITH", number(EIO)}, {"FAIL_RANK", "0"}};
  fault["FAIL_UNDER"] = (run / "metrics").string();
  const Result r = train(2, run, fault);
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error,
              AllOf(HasSubstr("metrics.jsonl"), HasSubstr("Input/output error"), Not(HasSubstr("could not save"))));
  EXPECT_THAT(names_in(run / "checkpoints"),
              ElementsAre("step-00000003", "step-00000006", "step-00000009", "step-00000012"));
}

}  // namespace
}  // namespace partita::internal::test
