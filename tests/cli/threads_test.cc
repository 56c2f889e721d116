// Host threads as seen by users: their number, and how they wait.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "cli/short_spins.h"
#include "partita/base/host_cores.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
using namespace cli;

namespace {

using std::chrono::seconds;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

// An end before anything is computed, in an environment without the variables of these tests but those given.
Result start(std::vector<std::string> arguments, const Variables& variables) {
  std::vector<std::string> command = {"env"};
  for (const char* name : {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "PARTITA_NUM_THREADS"})
    command.insert(command.end(), {"-u", name});
  for (const auto& [name, value] : variables) command.push_back(name + "=" + value);
  arguments = command_line(std::move(arguments));
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Process(command).end(seconds(60));
}

// What libgomp says of its settings as it is loaded.
std::string waiting(const std::string& subcommand, Variables variables) {
  variables["OMP_DISPLAY_ENV"] = "verbose";
  return start({subcommand, "/nonexistent.toml"}, variables).error;
}

// Shorter where this machine is busy now.
const auto kShort = AnyOf(HasSubstr("GOMP_SPINCOUNT = '1000'"), HasSubstr("GOMP_SPINCOUNT = '100'"));

TEST(Waiting, DependsOnWhetherCoresAreShared) {
  EXPECT_TRUE(cores_are_shared("some avg10=99.86 avg60=99.11 avg300=98.51 total=2381455262\nfull avg10=0.00"));
  EXPECT_TRUE(cores_are_shared("some avg10=5.00 avg60=0.00"));
  EXPECT_TRUE(cores_are_shared("some avg10=100.00"));
  for (const char* text : {"some avg10=4.99 avg60=99.00", "some avg10=0.00", "some avg10=", "full avg10=50.00", "",
                           "some avg10", "some avg10=-7", "some avg10=x50"})
    EXPECT_FALSE(cores_are_shared(text)) << text;
}

TEST(Waiting, IsShortUnlessTheUserSaysOtherwise) {
  for (const char* subcommand : {"train", "eval", "generate", "bench", "import", "export"})
    EXPECT_THAT(waiting(subcommand, {}), kShort) << subcommand;
  EXPECT_THAT(waiting("train", {{"GOMP_SPINCOUNT", "77"}}), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(waiting("train", {{"OMP_WAIT_POLICY", "passive"}}), HasSubstr("GOMP_SPINCOUNT = '0'"));
  EXPECT_THAT(waiting("train", {{"OMP_WAIT_POLICY", "active"}}), Not(kShort));
  EXPECT_THAT(waiting("tokenize", {}), Not(kShort));  // computes nothing with OpenMP
}

// The program begins again before anything of it has run: with its arguments, exit code and errors, and once.
TEST(Waiting, LeavesTheCommandAsItWas) {
  const Result r = start({"train", "/nonexistent dir/a.toml", "--train.steps=3"}, {});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("/nonexistent dir/a.toml"));
  const std::string shown = waiting("train", {});
  const size_t first = shown.find("OPENMP DISPLAY ENVIRONMENT BEGIN");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(shown.find("OPENMP DISPLAY ENVIRONMENT BEGIN", first + 1), std::string::npos);
}

TEST(Waiting, ChangesNoBit) {
  const TemporaryDirectory folder;
  const auto run = [&](const char* name, const Variables& variables) {
    const Result r = start(
        train_command(1, folder / name, {"--train.steps=6", "--train.threads=2", "--checkpoint.every=0"}), variables);
    ASSERT_EQ(r.code, 0) << r.error;
  };
  run("ours", {});
  run("passive", {{"OMP_WAIT_POLICY", "passive"}});
  run("spinning", {{"GOMP_SPINCOUNT", "20000"}});
  expect_same_run(folder / "passive", folder / "ours", 0);
  expect_same_run(folder / "spinning", folder / "ours", 0);
}

// The number of threads that a run takes, from its log.
std::string threads(const Variables& variables, const std::vector<std::string>& overrides = {}) {
  const TemporaryDirectory folder;
  std::vector<std::string> arguments = {"--train.steps=1", "--checkpoint.every=0", "--eval.every=0"};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  Variables all = variables;
  all["PARTITA_LOG"] = "debug";
  const Result r = start(train_command(1, folder / "run", arguments), all);
  EXPECT_EQ(r.code, 0) << r.error;
  return r.error;
}

TEST(Threads, AreThoseOfTheMachineOrTheUser) {
  const auto cores = std::to_string(host_cores().cores.size());
  const std::string shown = threads({});
  EXPECT_THAT(shown, HasSubstr(": " + cores + " core"));
  EXPECT_THAT(shown, HasSubstr("first step after"));  // and where the time went
  EXPECT_THAT(threads({{"OMP_NUM_THREADS", "1"}}), HasSubstr("1 thread: OMP_NUM_THREADS"));
  EXPECT_THAT(threads({{"OMP_NUM_THREADS", "1"}, {"PARTITA_NUM_THREADS", "2"}}),
              HasSubstr("2 threads: PARTITA_NUM_THREADS"));
  EXPECT_THAT(threads({{"PARTITA_NUM_THREADS", "2"}}, {"--train.threads=3"}), HasSubstr("3 threads: train.threads"));
}

// As torchrun starts a rank: its OMP_NUM_THREADS=1 is not the user's.
TEST(Threads, OfTorchrunAreThoseOfTheMachine) {
  const Variables torchrun = {
      {"TORCHELASTIC_RUN_ID", "none"}, {"RANK", "0"},           {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},       {"OMP_NUM_THREADS", "1"}};
  const auto cores = std::to_string(host_cores().cores.size());
  EXPECT_THAT(threads(torchrun), HasSubstr(": " + cores + " core"));
  EXPECT_THAT(threads(torchrun),
              HasSubstr("OMP_NUM_THREADS=1 is torchrun's default: set PARTITA_NUM_THREADS to choose"));
  Variables own = torchrun;
  own["PARTITA_NUM_THREADS"] = "1";
  EXPECT_THAT(threads(own), HasSubstr("1 thread: PARTITA_NUM_THREADS"));
}

// Two ranks share the cores of the machine, and rank 0 says so.
TEST(Threads, OfRanksAreShared) {
  const TemporaryDirectory folder;
  const Result r =
      start(train_command(2, folder / "run", {"--train.steps=1", "--checkpoint.every=0", "--eval.every=0"}),
            {{"PARTITA_LOG", "debug"}});
  ASSERT_EQ(r.code, 0) << r.error;
  const auto cores = static_cast<int>(host_cores().cores.size());
  const int each = std::max(1, cores / 2);
  EXPECT_THAT(r.error, HasSubstr(fmt::format("{} thread{}: {} core", each, each == 1 ? "" : "s", cores)));
  EXPECT_THAT(r.error, HasSubstr("shared by 2 ranks"));
}

TEST(Threads, WrongVariableIsNamed) {
  const TemporaryDirectory folder;
  const Result r = start(train_command(1, folder / "run"), {{"PARTITA_NUM_THREADS", "lots"}});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("PARTITA_NUM_THREADS=lots: expected a number of threads from 1 to 1024"));
}

}  // namespace
}  // namespace partita::internal::test
