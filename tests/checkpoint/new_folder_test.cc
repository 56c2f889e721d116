#include "partita/checkpoint/new_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "partita/base/file.h"
#include "partita/base/removal.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

TEST(NewFolder, AppearsWhenItIsPublished) {
  const TemporaryDirectory root;
  {
    NewFolder folder(root / "a/b/out");
    write_file(folder.path() / "file", "text");
    EXPECT_FALSE(fs::exists(root / "a/b/out"));
    folder.publish();
  }
  EXPECT_EQ(read_file(root / "a/b/out/file"), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(root / "a/b"), fs::directory_iterator()), 1) << "no lock is left";
  EXPECT_THAT(error_message([&] { const NewFolder again(root / "a/b/out"); }), testing::HasSubstr("already exists"));
}

TEST(NewFolder, LeavesNothingWhereItFails) {
  const TemporaryDirectory root;
  try {
    const NewFolder folder(root / "a/b/out");
    write_file(folder.path() / "file", "text");
    throw std::runtime_error("the disk is full");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(fs::is_empty(root.path()));
  // A folder of others beside it stays, and what is above.
  fs::create_directories(root / "c");
  { const NewFolder folder(root / "c/d/out"); }
  EXPECT_TRUE(fs::is_empty(root / "c"));
}

// The folder behind a link is filled, and the link stays; a path may go up again.
TEST(NewFolder, FollowsLinks) {
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "disk/out");
  std::filesystem::create_directories(folder / "elsewhere/deep");
  std::filesystem::create_directory_symlink(folder / "disk/out", folder / "out");
  std::filesystem::create_directory_symlink(folder / "elsewhere/deep", folder / "link");
  for (const std::filesystem::path& path : {folder / "out", folder / "link/../new/model"}) {
    NewFolder made(path);
    write_file(made.path() / "file", "x");
    made.publish();
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "out"));
  EXPECT_EQ(read_file(folder / "disk/out/file"), "x");
  EXPECT_EQ(read_file(folder / "elsewhere/new/model/file"), "x");
}

TEST(NewFolderDeathTest, LeavesNothingWhereASignalEndsTheProcess) {
  const TemporaryDirectory root;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          remove_on_signals();
          const NewFolder folder(root / "a/b/out");
          write_file(folder.path() / "file", "text");
          kill(getpid(), signal);
          for (;;) pause();
        },
        testing::KilledBySignal(signal), "");
    EXPECT_TRUE(fs::is_empty(root.path())) << signal;
  }
}

}  // namespace
}  // namespace partita::internal
