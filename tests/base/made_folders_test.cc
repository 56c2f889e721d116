#include "partita/base/made_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

TEST(MadeFolders, AreTakenBackWhereNothingCameIntoThem) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "old");
  {
    const MadeFolders made(folder / "old/a/b/");
    EXPECT_TRUE(fs::is_directory(folder / "old/a/b"));
    const MadeFolders none(folder / "old");
  }
  EXPECT_TRUE(fs::is_empty(folder / "old")) << "and what was there before stays";
  {
    const MadeFolders made(folder / "a/b/c");
    write_file(folder / "a/b/file", "");
  }
  EXPECT_TRUE(fs::exists(folder / "a/b/file"));
  EXPECT_FALSE(fs::exists(folder / "a/b/c"));
}

TEST(MadeFolders, AnErrorLeavesNothingAndTakesNothing) {
  const TemporaryDirectory folder;
  write_file(folder / "file", "kept");
  EXPECT_THAT(error_message([&] { const MadeFolders made(folder / "file/a"); }),
              testing::HasSubstr("cannot make the folder"));
  EXPECT_EQ(read_file(folder / "file"), "kept");
  fs::create_symlink(folder / "nowhere", folder / "link");
  EXPECT_THAT(error_message([&] { const MadeFolders made(folder / "link/a"); }),
              testing::HasSubstr("cannot make the folder"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

}  // namespace
}  // namespace partita::internal
