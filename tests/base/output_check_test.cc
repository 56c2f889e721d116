#include "partita/base/output_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class OutputCheck : public testing::Test {
 protected:
  std::string file(const fs::path& path, std::vector<fs::path> inputs = {}) {
    return error_message([&] { check_output_file(path, inputs); });
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  TemporaryDirectory folder_;
};

TEST_F(OutputCheck, MakesFoldersAndLeavesNoFile) {
  EXPECT_EQ(file(folder_ / "a/b/c.json"), "no error");
  EXPECT_TRUE(fs::is_empty(folder_ / "a/b"));
  write_file(folder_ / "old", "kept");
  EXPECT_EQ(file(folder_ / "old"), "no error");
  EXPECT_EQ(read_file(folder_ / "old"), "kept");
  EXPECT_EQ(entries(), 2U);
  check_output_prefix(folder_ / "d/e/corpus");
  EXPECT_TRUE(fs::is_empty(folder_ / "d/e"));
}

TEST_F(OutputCheck, NamesWhatCannotBeWritten) {
  EXPECT_THAT(file(folder_.path()), HasSubstr("is a folder: give the name of a file"));
  EXPECT_THAT(file(folder_ / "new/"), HasSubstr("is a folder: give the name of a file"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  EXPECT_THAT(file(""), HasSubstr("give the name of a file"));
  write_file(folder_ / "in", "text");
  fs::create_symlink(folder_ / "in", folder_ / "link");
  EXPECT_THAT(file(folder_ / "link", {folder_ / "other", folder_ / "in"}), HasSubstr("is an input"));
  EXPECT_THAT(file(folder_ / "in/t.json"), HasSubstr("cannot make the folder"));
  EXPECT_THAT(file("/proc/t.json"), HasSubstr("cannot write /proc/t.json"));
  EXPECT_THAT(error_message([&] { check_output_prefix(folder_.path()); }), HasSubstr("corpus"));
  EXPECT_THAT(error_message([&] { check_output_prefix(folder_ / "x/"); }), HasSubstr("is a folder"));
}

TEST_F(OutputCheck, ANewFileDoesNotExist) {
  const auto check = [&](const fs::path& path) {
    return error_message([&] { check_new_file(path, std::vector{folder_ / "in"}); });
  };
  write_file(folder_ / "in", "text");
  write_file(folder_ / "old", "kept");
  EXPECT_EQ(check(folder_ / "a/new"), "no error");
  EXPECT_THAT(check(folder_ / "old"), HasSubstr("old already exists: nothing is overwritten, give another name"));
  EXPECT_EQ(read_file(folder_ / "old"), "kept");
  EXPECT_THAT(check(folder_ / "in"), HasSubstr("is an input"));
  EXPECT_THAT(check(folder_.path()), HasSubstr("is a folder"));
}

TEST_F(OutputCheck, AFolderOfItsOwnIsNewOrEmpty) {
  const auto folder = [&](const char* name) { return error_message([&] { check_output_folder(folder_ / name); }); };
  EXPECT_EQ(folder("a/b"), "no error");
  EXPECT_EQ(folder("a/b"), "no error");
  EXPECT_THAT(folder("a"), HasSubstr("already exists and is not empty"));
  write_file(folder_ / "f", "");
  EXPECT_THAT(error_message([&] { require_new_folder(folder_ / "f"); }), HasSubstr("is a file"));
  EXPECT_EQ(error_message([&] { require_new_folder(folder_ / "new"); }), "no error");
  EXPECT_FALSE(fs::exists(folder_ / "new")) << "it makes nothing";
  EXPECT_THAT(folder("f"), HasSubstr("is a file"));
  EXPECT_THAT(folder("f/g"), HasSubstr("cannot make the folder"));
}

}  // namespace
}  // namespace partita::internal
