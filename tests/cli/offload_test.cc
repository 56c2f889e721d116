// Runs whose optimizer states are on disk: the same run, resumed too, and nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); !name.starts_with("events.")) all.insert(name);
  return all;
}

TEST(Offload, OptimizerStatesOnDiskAreTheSameRun) {
  const TemporaryDirectory folder;
  const std::vector<std::string> keys = {"--train.device=cpu", "--train.steps=6", "--checkpoint.every=3",
                                         "--parallel.zero_stage=1"};
  const auto train = [&](const char* run, std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    const Result r = partita(train_command(2, folder / run, more));
    EXPECT_EQ(r.code, 0) << r.error;
    return r.output + r.error;
  };
  train("memory", {});
  EXPECT_THAT(train("disk", {"--memory.optimizer=disk"}), HasSubstr(" in a file of this rank in "));
  expect_same_run(folder / "disk", folder / "memory", 0);
  EXPECT_EQ(names(folder / "disk"), names(folder / "memory"));
  // Goes on from the checkpoint of either.
  fs::remove_all(folder / "disk/checkpoints/step-00000006");
  EXPECT_THAT(train("disk", {"--memory.optimizer=disk:0.5", "--memory.disk_folder=" + (folder / "scratch").string()}),
              HasSubstr("resuming from"));
  expect_same_run(folder / "disk", folder / "memory", 0);
  EXPECT_TRUE(fs::is_empty(folder / "scratch"));
}

TEST(Offload, ADiskThatCannotBeUsedIsAnErrorBeforeTheRun) {
  const TemporaryDirectory folder;
  const Result r = partita(train_command(
      1, folder / "run", {"--train.device=cpu", "--memory.optimizer=disk", "--memory.disk_folder=/proc/nowhere"}));
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, HasSubstr("/proc/nowhere: "));
}

}  // namespace
}  // namespace partita::internal::test
