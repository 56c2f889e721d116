#include "partita/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ReadFile, ReturnsEveryByte) {
  const TemporaryDirectory folder;
  for (const size_t size : {0, 1, 4095, 4096, 4097, 100'000}) {
    std::string content(size, '\0');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 31);
    write_file(folder / "a", content);
    EXPECT_EQ(read_file(folder / "a"), content) << size;
  }
}

TEST(ReadFile, ReadsFilesThatReportNoSize) { EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:")); }

TEST(ReadFile, NamesFileAndCause) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { (void)read_file(folder / "absent"); }),
              AllOf(HasSubstr("absent"), HasSubstr("No such file or directory")));
  EXPECT_THAT(error_message([&] { (void)read_file(folder.path()); }), HasSubstr("it is a directory"));
}

TEST(WriteFile, ReplacesAndLeavesNoOtherFile) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "old content");
  write_file(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFile, TakesTheModeOfTheUsersUmask) {
  const TemporaryDirectory folder;
  const mode_t before = ::umask(022);
  write_file(folder / "a", "x");
  ::umask(before);
  EXPECT_EQ(fs::status(folder / "a").permissions(), static_cast<fs::perms>(0644));
}

TEST(WriteFile, FailureKeepsTheOldFileAndRemovesTheNew) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "old");
  const std::string large(1 << 20, 'x');
  {
    const FileSizeLimit limit(1 << 16);
    EXPECT_THAT(error_message([&] { write_file(folder / "a", large); }), HasSubstr((folder / "a").string()));
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(WriteFile, MissingDirectoryIsAnError) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { write_file(folder / "no" / "a", "x"); }),
              AllOf(HasSubstr("no/a"), HasSubstr("No such file or directory")));
}

TEST(AtomicFile, AppearsByCommitOnly) {
  const TemporaryDirectory folder;
  {
    AtomicFile file(folder / "a");
    file.write("12");
    file.write("345");
    EXPECT_EQ(file.size(), 5);
    EXPECT_FALSE(fs::exists(folder / "a"));
    file.commit();
    EXPECT_THROW(file.write("6"), Error);
  }
  EXPECT_EQ(read_file(folder / "a"), "12345");
  {
    AtomicFile abandoned(folder / "b");
    abandoned.write("12");
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, IsDurableBeforeItHasItsName) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_THROW(file.publish(), Error);
    file.sync();
    EXPECT_THROW(file.write("er"), Error);
    EXPECT_EQ(read_file(folder / "a"), "old");
    AtomicFile moved(std::move(file));
    moved.publish();
    EXPECT_THROW(moved.publish(), Error);
  }
  EXPECT_EQ(read_file(folder / "a"), "new");
  {
    AtomicFile abandoned(folder / "b");
    abandoned.write("12");
    abandoned.sync();
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, CommitOntoADirectoryFailsAndCleansUp) {
  const TemporaryDirectory folder;
  fs::create_directory(folder / "a");
  EXPECT_THAT(error_message([&] { write_file(folder / "a", "x"); }), HasSubstr("cannot write"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, TwoWritersOfOneFileDoNotMeet) {
  const TemporaryDirectory folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "a"), "first");
}

TEST(AtomicFile, PublishNewReplacesNothing) {
  const TemporaryDirectory folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  EXPECT_THROW((void)first.publish_new(), Error);  // before sync
  first.write("first");
  second.write("second");
  first.sync();
  second.sync();
  EXPECT_TRUE(first.publish_new());
  EXPECT_EQ(names_in(folder.path()).size(), 2U);
  {
    AtomicFile late(std::move(second));
    EXPECT_FALSE(late.publish_new());
  }
  EXPECT_EQ(read_file(folder / "a"), "first");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
}

// A killed writer's file goes; names that are not quite a writer's, what is no file, and what is being written stay.
TEST(RemoveAbandoned, TakesOnlyTheFilesOfDeadWriters) {
  const TemporaryDirectory folder;
  const std::vector<std::string> others = {"a.1-2.tmpx", "a.1-2-3.tmp", "a.12.tmp",  "a.-1.tmp", "a.1-.tmp",
                                           "a.-.tmp",    "a..tmp",      "a.tmp",     "a.1-2.tm", "a.x-0.tmp",
                                           "ab.1-2.tmp", "b.1-2.tmp",   "a.1_2.tmp", "a.1-2",    "a.1--2.tmp"};
  for (const std::string& name : others) write_file(folder / name, "x");
  fs::create_directory(folder / "a.1-3.tmp");
  fs::create_symlink(folder / "b.1-2.tmp", folder / "a.1-4.tmp");
  ASSERT_EQ(::mkfifo((folder / "a.1-5.tmp").c_str(), 0666), 0);
  for (const char* name : {"a.1-6.tmp", "a.4194399-17.tmp"}) write_file(folder / name, "half");
  AtomicFile alive(folder / "a");
  alive.write("whole");
  const size_t all = names_in(folder.path()).size();
  EXPECT_EQ(remove_abandoned(folder / "a"), 2);
  EXPECT_EQ(names_in(folder.path()).size(), all - 2);
  EXPECT_FALSE(fs::exists(folder / "a.1-6.tmp"));
  EXPECT_FALSE(fs::exists(folder / "a.4194399-17.tmp"));
  EXPECT_EQ(remove_abandoned(folder / "a"), 0);
  EXPECT_EQ(remove_abandoned(folder / "no" / "a"), 0);
  alive.commit();
  EXPECT_EQ(read_file(folder / "a"), "whole");
}

TEST(FileLock, IsHeldByOneAtATime) {
  const TemporaryDirectory folder;
  constexpr int kThreads = 4, kRounds = 200;
  int inside = 0, most = 0;
  std::mutex mutex;
  std::atomic<int> unlocked = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const FileLock lock(folder / "lock");
          if (!lock.held()) ++unlocked;
          {
            const std::lock_guard guard(mutex);
            most = std::max(most, ++inside);
          }
          std::this_thread::yield();
          const std::lock_guard guard(mutex);
          --inside;
        }
      });
    }
  }
  EXPECT_EQ(unlocked, 0);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(FileLock, SaysWhetherSomebodyHadIt) {
  const TemporaryDirectory folder;
  write_file(folder / "lock", "");  // as a killed process leaves it
  auto first = std::make_unique<FileLock>(folder / "lock");
  EXPECT_TRUE(first->held());
  EXPECT_FALSE(first->waited());
  std::jthread other([&] {
    const FileLock second(folder / "lock");
    EXPECT_TRUE(second.held());
    EXPECT_TRUE(second.waited());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  first.reset();
  other.join();
  EXPECT_FALSE(FileLock(folder / "no" / "lock").held());
  fs::create_directory(folder / "sub");
  ASSERT_EQ(::mkfifo((folder / "sub" / "lock").c_str(), 0666), 0);
  EXPECT_FALSE(FileLock(folder / "sub" / "lock").held());
  fs::remove_all(folder / "sub");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(FreeBytes, AsksTheNearestFolderThatExists) {
  const TemporaryDirectory folder;
  const int64_t here = free_bytes(folder.path());
  EXPECT_GT(here, 0);
  // Others write to the disk meanwhile: the same file system, not the same byte.
  EXPECT_NEAR(static_cast<double>(free_bytes(folder / "not/yet/there")), static_cast<double>(here), 1e9);
  EXPECT_GT(free_bytes("relative/not/there"), 0);
}

TEST(FreeBytes, RequireSaysWhatIsNeededAndFree) {
  const TemporaryDirectory folder;
  require_free_bytes(folder.path(), 1);
  EXPECT_THAT(error_message([&] { require_free_bytes(folder.path(), int64_t{1} << 60); }),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("1024.0 PiB needed"), HasSubstr("free some space")));
}

TEST(MappedFile, ShowsTheFile) {
  const TemporaryDirectory folder;
  const std::vector<uint16_t> numbers = {1, 2, 3, 65535};
  write_file(folder / "a", {reinterpret_cast<const char*>(numbers.data()), 8});
  for (const auto access : {MappedFile::Access::random, MappedFile::Access::sequential}) {
    const MappedFile map(folder / "a", access);
    EXPECT_EQ(map.size(), 8);
    const auto read = map.as<uint16_t>(2, 3);
    EXPECT_EQ(std::vector<uint16_t>(read.begin(), read.end()), (std::vector<uint16_t>{2, 3, 65535}));
  }
}

TEST(MappedFile, KeepsItsAddressWhenMoved) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "abc");
  write_file(folder / "b", "de");
  MappedFile a(folder / "a");
  const std::byte* address = a.bytes().data();
  MappedFile moved(std::move(a));
  EXPECT_EQ(moved.bytes().data(), address);
  moved = MappedFile(folder / "b");
  EXPECT_EQ(moved.text(), "de");
}

TEST(RemoveAllAbandoned, TakesOnlyTemporaryFilesOfDeadWriters) {
  const TemporaryDirectory folder;
  for (const char* name : {"config.toml.77-0.tmp", "tokenizer.json.8-12.tmp", "run.lock.9-0.tmp"})
    write_file(folder / name, "half");
  const std::vector<std::string> others = {"config.toml", "a.tmp", "1-0.tmp", ".1-0.tmp", "a.1-.tmp", "a.1-0.tmp.b"};
  for (const std::string& name : others) write_file(folder / name, "mine");
  fs::create_directories(folder / "b.1-0.tmp");
  AtomicFile living(folder / "living");
  EXPECT_EQ(remove_all_abandoned(folder.path()), 3);
  for (const std::string& name : others) EXPECT_EQ(read_file(folder / name), "mine");
  living.write("whole");
  living.commit();
  EXPECT_EQ(read_file(folder / "living"), "whole");
  EXPECT_EQ(remove_all_abandoned(folder / "none"), 0);
}

TEST(RemoveAbandonedLock, LeavesOneThatIsHeld) {
  const TemporaryDirectory folder;
  {
    const FileLock lock(folder / "a.lock");
    remove_abandoned_lock(folder / "a.lock");
    EXPECT_TRUE(fs::exists(folder / "a.lock"));
  }
  write_file(folder / "a.lock", "");
  remove_abandoned_lock(folder / "a.lock");
  EXPECT_FALSE(fs::exists(folder / "a.lock"));
  remove_abandoned_lock(folder / "a.lock");
}

TEST(IoReason, SaysWhatToDo) {
  EXPECT_THAT(io_reason(ENOSPC), HasSubstr("free some space"));
  EXPECT_THAT(io_reason(EMFILE), HasSubstr("ulimit -n"));
  EXPECT_THAT(io_reason(EFBIG), HasSubstr("larger than the file system allows"));
  const FileSizeLimit limit(1 << 16);
  EXPECT_THAT(io_reason(EFBIG), AllOf(HasSubstr("64.0 KiB"), HasSubstr("ulimit -f")));
  EXPECT_EQ(io_reason(EACCES), "Permission denied");
}

TEST(MappedFile, TakesAnEmptyFile) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "");
  const MappedFile map(folder / "a");
  EXPECT_EQ(map.size(), 0);
  EXPECT_TRUE(map.as<int64_t>(0, 0).empty());
}

TEST(MappedFile, RefusesWhatIsNotThere) {
  const TemporaryDirectory folder;
  write_file(folder / "a", "0123456789");
  const MappedFile map(folder / "a");
  EXPECT_EQ(map.as<int32_t>(0, 2).size(), 2U);
  EXPECT_THAT(error_message([&] { (void)map.as<int32_t>(0, 3); }),
              AllOf(HasSubstr("cut short"), HasSubstr("3 items of 4 bytes"), HasSubstr("10 bytes")));
  EXPECT_THAT(error_message([&] { (void)map.as<char>(11, 0); }), HasSubstr("cut short"));
  EXPECT_THAT(error_message([&] { (void)map.as<char>(-1, 1); }), HasSubstr("cut short"));
  EXPECT_THAT(error_message([&] { (void)map.as<int64_t>(0, int64_t{1} << 62); }), HasSubstr("cut short"));
  EXPECT_THAT(error_message([&] { (void)map.as<int32_t>(2, 1); }), HasSubstr("not aligned to 4"));
  EXPECT_THAT(error_message([&] { (void)MappedFile(folder / "absent"); }), HasSubstr("absent"));
}

TEST(HumanBytes, KeepsFourFigures) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(human_bytes(int64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
}

}  // namespace
}  // namespace partita::internal
