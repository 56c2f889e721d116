// Which checkpoint in memory a start finds. What launch does with it: tests/cli/restarts_test.cc.
#include "partita/train/memory_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/train/lineage.h"
#include "partita/train/trainer.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MemoryTierProblem, ItTakesTwoCheckpointsAndHalfOfWhatIsFree) {
  EXPECT_EQ(memory_tier_bytes(100), 200);
  EXPECT_EQ(memory_tier_problem(100, 0, 400, 200), "");
  EXPECT_THAT(memory_tier_problem(100, 0, 399, 200), HasSubstr("more than half of the 399 B of memory that is free"));
  EXPECT_THAT(memory_tier_problem(100, 0, 400, 199), HasSubstr("199 B is free in /dev/shm"));
  // The one before is not free, but this tier's.
  EXPECT_EQ(memory_tier_problem(100, 100, 300, 100), "");
  EXPECT_NE(memory_tier_problem(100, 100, 299, 100), "");
  EXPECT_NE(memory_tier_problem(100, 100, 300, 99), "");
}

class StartWithMemory : public testing::Test {
 protected:
  StartWithMemory() {
    setenv(kMemoryFolder, memory_.path().c_str(), 1);
    config_.run.directory = folder_ / "run";
    fs::create_directory(config_.run.directory);
  }
  ~StartWithMemory() override { unsetenv(kMemoryFolder); }

  // The folder that a run of this name has in memory: that of the only checkpoint there.
  fs::path save(const fs::path& root, int64_t step) {
    CheckpointContents contents;
    contents.tensors = {{.name = "a", .shape = {4}}};
    contents.pieces = {
        {.tensor = 0, .box = {.rows = 1, .columns = 4}, .data = reinterpret_cast<std::byte*>(values_.data())}};
    return save_checkpoint(root, step, contents, alone_);
  }
  fs::path on_disk(int64_t step) { return save(checkpoints_folder(config_.run.directory), step); }
  // As MemoryTier does.
  fs::path in_memory(int64_t step) {
    if (root_.empty()) root_ = memory_root(config_.run.directory);
    return save(root_, step);
  }
  fs::path start(const fs::path& on_disk) {
    return start_with_memory(config_, on_disk, [this](const fs::path& folder) {
      (void)read_manifest(folder);
      asked_.push_back(folder);
    });
  }

  TemporaryDirectory memory_, folder_;
  Config config_;
  Alone alone_;
  std::array<float, 4> values_{1, 2, 3, 4};
  fs::path root_;
  std::vector<fs::path> asked_;
};

TEST_F(StartWithMemory, TheNewestOfBoth) {
  const fs::path disk = on_disk(40), kept = in_memory(45);
  EXPECT_TRUE(is_in_memory(kept));
  EXPECT_FALSE(is_in_memory(disk));
  EXPECT_EQ(start(disk), kept);
  EXPECT_THAT(asked_, ElementsAre(kept));
  EXPECT_EQ(start({}), kept);
  EXPECT_TRUE(fs::exists(kept)) << "until the next one is complete";
  const fs::path later = on_disk(45);
  EXPECT_EQ(start(later), later);
  EXPECT_FALSE(fs::exists(kept)) << "it would be found again later";
}

TEST_F(StartWithMemory, OfSeveralTheNewestThatIsUsable) {
  const fs::path older = in_memory(45), newer = in_memory(50);
  std::ofstream(newer / kManifestName) << "damage";
  fs::create_directory(partial_path(root_ / step_folder_name(55)));
  EXPECT_EQ(start({}), older);
  EXPECT_THAT(list_steps(root_), testing::SizeIs(1));
  EXPECT_FALSE(fs::exists(newer));
  EXPECT_FALSE(fs::exists(partial_path(root_ / step_folder_name(55))));
  std::ofstream(older / kManifestName) << "damage";
  EXPECT_EQ(start({}), fs::path());
  EXPECT_THAT(list_steps(root_), IsEmpty());
}

TEST_F(StartWithMemory, AFolderThatCannotBeReadIsNoReasonToRefuse) {
  const fs::path disk = on_disk(40);
  write_file(memory_root(config_.run.directory), "not a folder");
  EXPECT_EQ(start(disk), disk);
}

TEST_F(StartWithMemory, NeverIsNever) {
  const fs::path kept = in_memory(5);
  config_.checkpoint.resume = "never";
  EXPECT_EQ(start({}), fs::path());
  EXPECT_FALSE(fs::exists(kept));
}

TEST_F(StartWithMemory, OnlyOfThisRun) {
  (void)in_memory(5);
  const fs::path spelled = folder_ / "other/../run";
  fs::create_directory(folder_ / "other");
  config_.run.directory = spelled;
  EXPECT_NE(start({}), fs::path()) << "the same folder";
  config_.run.directory = folder_ / "other";
  EXPECT_EQ(start({}), fs::path());
  // Another folder at the same place.
  fs::rename(folder_ / "run", folder_ / "moved");
  fs::create_directory(folder_ / "run");
  config_.run.directory = folder_ / "run";
  EXPECT_EQ(start({}), fs::path());
  config_.run.directory = folder_ / "moved";
  EXPECT_NE(start({}), fs::path());
  // What came before a rewind is not found after it.
  write_lineage(folder_ / "moved", {.rewinds = {{.from = 4, .to = 2, .kept = "x"}}});
  EXPECT_EQ(start({}), fs::path());
}

TEST_F(StartWithMemory, OnlyUnderALauncherThatRestarts) {
  const fs::path disk = on_disk(40);
  (void)in_memory(45);
  unsetenv(kMemoryFolder);
  EXPECT_EQ(start(disk), disk);
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(StartWithMemory, WarnsOfWhatWillNotFit) {
  config_.checkpoint.memory_every = 5;
  EXPECT_EQ(memory_tier_warning(config_, 1000), "");
  EXPECT_THAT(memory_tier_warning(config_, int64_t{1} << 50),
              HasSubstr("checkpoints in memory will not be made: they need 2"));
  config_.checkpoint.memory_every = 0;
  EXPECT_EQ(memory_tier_warning(config_, int64_t{1} << 50), "");
}

}  // namespace
}  // namespace partita::internal
