// Folders of runs and of exports: only one process writes to one, and existing data is never lost.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(RunFolder, ASecondStartIsRefused) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  fs::create_directory(folder / "place");
  fs::create_directory_symlink(folder / "place", folder / "alias");
  const fs::path same = folder / "alias" / "run";
  for (const auto& [first, second] : {std::pair(run, run), std::pair(folder / "place" / "run", same)}) {
    Process process(long_run(1, first), {{"OMP_NUM_THREADS", "1"}});
    ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
    for (int ranks : {1, 2}) {
      if (ranks == 2 && first == second) continue;
      const Result r = partita(train_command(ranks, second));
      EXPECT_EQ(r.code, 1);
      EXPECT_THAT(r.error, AllOf(HasSubstr("is in use by process " + std::to_string(process.pid())),
                                 HasSubstr("run.directory"), Not(HasSubstr("rank 0: rank 0"))));
    }
    kill(process.pid(), SIGINT);
    EXPECT_EQ(process.end(seconds(30)).code, 75);
    const auto lines = metrics(first);
    EXPECT_TRUE(fs::exists(first / "checkpoints" / fmt::format("step-{:08d}", lines.size())));
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].at("step"), static_cast<double>(i + 1));
    EXPECT_FALSE(fs::exists(first / "run.lock"));
  }
}

// kill -9 leaves a lock and half written files: the next start takes the one over and removes the others.
TEST(RunFolder, OfAKilledProcessIsTakenOver) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  Process process(long_run(1, run), {{"OMP_NUM_THREADS", "1"}});
  ASSERT_TRUE(process.until([&] { return has_steps(process, 2); }, seconds(60))) << process.seen().error;
  kill(process.pid(), SIGKILL);
  EXPECT_EQ(process.end(seconds(30)).code, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(run / "run.lock"));
  write_file(run / "config.toml.77-0.tmp", "half");
  const Result r = partita(train_command(1, run));
  EXPECT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("which is gone"));
  EXPECT_FALSE(fs::exists(run / "run.lock"));
  EXPECT_FALSE(fs::exists(run / "config.toml.77-0.tmp"));
  EXPECT_EQ(metrics(run).size(), 12U);
}

TEST(RunFolder, PlacesThatAreNoFolder) {
  const TemporaryDirectory folder;
  write_file(folder / "file", "mine");
  fs::create_symlink(folder / "nowhere", folder / "link");
  const auto error = [](const fs::path& run) {
    const Result r = partita(train_command(1, run));
    EXPECT_EQ(r.code, 1);
    return r.error;
  };
  EXPECT_THAT(error(folder / "file"), HasSubstr("file is a file: expected a folder"));
  EXPECT_THAT(error(folder / "file" / "run"), HasSubstr("file"));
  EXPECT_THAT(error(folder / "link"), AllOf(HasSubstr("symbolic link"), HasSubstr("nowhere")));
  EXPECT_EQ(read_file(folder / "file"), "mine");
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"file", "link"}));
}

// An error before the run has begun leaves no folder behind.
TEST(RunFolder, OfARunThatDidNotBeginIsNotLeft) {
  const TemporaryDirectory folder;
  const Result r = partita(train_command(1, folder / "a" / "b", {"--data.path=/nowhere/tokens"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Limits, OnFileSizesAreAnErrorThatNamesThem) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::string command =
      fmt::format("ulimit -f 100; exec '{}' train '{}' '{}'", PARTITA_PROGRAM, SmallRun::get().config(), run_in(run));
  const Result r = Process({"/bin/sh", "-c", command}, {{"OMP_NUM_THREADS", "1"}}).end(seconds(60));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, AllOf(HasSubstr("rank-00000.safetensors"), HasSubstr("ulimit -f")));
  EXPECT_EQ(partita(train_command(1, run)).code, 0);
  EXPECT_EQ(metrics(run).size(), 12U);
}

// Neither the lock nor the folders above that were made for it.
TEST(Export, LeavesNothingWhereItFails) {
  const TemporaryDirectory folder;
  make_run(folder / "run");
  const fs::path out = folder / "new/deep/out";
  const Result full = Process({"/bin/sh", "-c",
                               fmt::format("ulimit -f 10; exec '{}' export '{}' '{}'", PARTITA_PROGRAM,
                                           (folder / "run").string(), out.string())})
                          .end(seconds(60));
  EXPECT_EQ(full.code, 1) << full.error;
  EXPECT_THAT(full.error, HasSubstr("ulimit -f"));
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(Export, IntoOneFolderTwiceAtOnce) {
  const TemporaryDirectory folder;
  make_run(folder / "run");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const fs::path out = folder / "out" / std::to_string(attempt);
    const auto command = command_line({"export", (folder / "run").string(), out.string()});
    Process first(command), second(command);
    const Result a = first.end(seconds(60)), b = second.end(seconds(60));
    EXPECT_EQ(a.code + b.code, 1) << a.error << b.error;
    EXPECT_THAT(a.error + b.error, testing::AnyOf(HasSubstr("is in use by process"), HasSubstr("already exists")));
    EXPECT_EQ(names_in(folder / "out").size(), static_cast<size_t>(attempt) + 1) << "no lock, no partial folder";
    EXPECT_EQ(partita({"eval", out.string(), "--data", SmallRun::get().prefix().string(), "--batches", "1"}).code, 0);
  }
}

}  // namespace
}  // namespace partita::internal::test
