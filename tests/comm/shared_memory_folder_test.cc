#include "partita/comm/shared_memory_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

int64_t entries(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), {}); }

TEST(SharedMemoryFolder, LivesAsLongAsItsOwner) {
  const TemporaryDirectory where;
  {
    const SharedMemoryFolder one(where.path()), two(where.path());
    EXPECT_NE(one.path(), two.path());
    EXPECT_TRUE(fs::is_directory(one.path()));
    EXPECT_EQ(entries(where.path()), 2) << "a folder that is held is not taken for stale";
    write_file(one.path() / "segment", "x");
  }
  EXPECT_EQ(entries(where.path()), 0);
}

// What a killed process leaves is removed by the next, and only that.
TEST(SharedMemoryFolder, OfTheDeadIsRemoved) {
  const TemporaryDirectory where;
  const pid_t child = fork();
  if (child == 0) {
    const SharedMemoryFolder mine(where.path());
    write_file(mine.path() / "segment", "x");
    _exit(0);  // as kill -9 does: no destructor
  }
  waitpid(child, nullptr, 0);
  fs::create_directory(where.path() / "partita.other");
  write_file(where.path() / "vader_segment.host.0.1", "x");
  EXPECT_EQ(entries(where.path()), 3);
  {
    const SharedMemoryFolder mine(where.path());
    EXPECT_EQ(entries(where.path()), 3);
    EXPECT_FALSE(fs::exists(mine.path() / "segment"));
  }
  EXPECT_TRUE(fs::exists(where.path() / "partita.other"));
  EXPECT_TRUE(fs::exists(where.path() / "vader_segment.host.0.1"));
}

TEST(SharedMemoryFolder, WhereThereIsNoneNothingHappens) {
  const SharedMemoryFolder none("/nonexistent/shm");
  EXPECT_TRUE(none.path().empty());
  EXPECT_EQ(none.descriptor(), -1);
}

}  // namespace
}  // namespace partita::internal
