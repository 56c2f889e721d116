#include "partita/base/owner_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "partita/base/timer.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr LockTimes kShort{.grace = 0.1, .stale = 0.6, .stopping = 0.3};

OwnerLock::Options options(std::chrono::milliseconds beat = std::chrono::milliseconds(20)) {
  return {.what = "runs/a", .advice = "choose another folder", .beat = beat, .times = kShort};
}

LockHolder elsewhere(int64_t beats = 3) {
  return {.host = "node5",
          .process = 77,
          .machine = "another boot pid:[1]",
          .started = "123",
          .job = "9",
          .since = "2026-01-31 12:30:05",
          .beats = beats};
}

TEST(OwnerLock, TheTextComesBackAsWritten) {
  const LockHolder holder = elsewhere();
  const std::string text = to_text(holder);
  EXPECT_EQ(text.size(), 512U);
  EXPECT_EQ(parse_lock_holder(text), holder);
  EXPECT_EQ(parse_lock_holder(to_text(this_process())), this_process());
  EXPECT_EQ(describe(holder), "process 77 on node5 (job 9, since 2026-01-31 12:30:05)");
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(parse_lock_holder(text.substr(0, length)), std::nullopt) << length;
  for (const char* other : {"\n", "[]\n", "{}\n", "{\"host\":3}\n", "nonsense\n"})
    EXPECT_EQ(parse_lock_holder(other), std::nullopt) << other;
}

TEST(OwnerLock, IsOneProcessesAndGoesWithIt) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  {
    OwnerLock lock(path, options());
    lock.require();
    const std::string error = error_message([&] { OwnerLock second(path, options()); });
    EXPECT_THAT(error, AllOf(HasSubstr("runs/a is in use by process " + std::to_string(getpid())),
                             HasSubstr(this_process().host), HasSubstr("choose another folder")));
    EXPECT_THAT(error, testing::Not(HasSubstr("remove"))) << "a holder that lives is not to be removed";
    lock.require();
  }
  EXPECT_FALSE(fs::exists(path));
  OwnerLock again(path, options());
  again.require();
}

TEST(OwnerLock, BeatsAndSaysThatItStops) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  OwnerLock lock(path, options());
  const auto beats = [&] { return parse_lock_holder(read_file(path)).value_or(LockHolder{.beats = -1}).beats; };
  const int64_t before = beats();
  const Timer timer;
  while (beats() < before + 3 && timer.seconds() < 20) usleep(10'000);
  EXPECT_GE(beats(), before + 3);
  lock.say_stopping();
  EXPECT_TRUE(parse_lock_holder(read_file(path))->stopping);
}

TEST(OwnerLock, OfAKilledProcessIsTakenOver) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  const pid_t child = fork();
  if (child == 0) {
    const OwnerLock lock(path, options());
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  ASSERT_EQ(parse_lock_holder(read_file(path))->process, child);
  OwnerLock lock(path, options());
  lock.require();
  EXPECT_EQ(parse_lock_holder(read_file(path))->process, getpid());
}

TEST(OwnerLock, OfAnotherMachineIsTakenOverWhenItsHeartHasStopped) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  write_file(path, to_text(elsewhere()));
  {
    const Timer timer;
    OwnerLock lock(path, options());
    EXPECT_GE(timer.seconds(), kShort.stale);
    EXPECT_EQ(parse_lock_holder(read_file(path))->process, getpid());
  }
  // It beats on: refused, long before it would be stale.
  write_file(path, to_text(elsewhere()));
  std::atomic<bool> done = false;
  std::thread other([&] {
    // In place, as a heartbeat is: the file stays the same one.
    const FileDescriptor file(::open(path.c_str(), O_WRONLY));
    for (int64_t beats = 4; !done; ++beats) {
      const std::string text = to_text(elsewhere(beats));
      EXPECT_EQ(pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
      usleep(50'000);
    }
  });
  OwnerLock::Options patient = options();
  patient.times.stale = 600;
  EXPECT_THAT(error_message([&] { OwnerLock lock(path, patient); }),
              HasSubstr("runs/a is in use by process 77 on node5 (job 9"));
  done = true;
  other.join();
}

TEST(OwnerLock, SeesThatItWasLost) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  {
    OwnerLock lock(path, options());
    fs::remove(path);
    EXPECT_THAT(error_message([&] { lock.require(); }), HasSubstr("runs/a was lost"));
    OwnerLock second(path, options());
    EXPECT_THAT(error_message([&] { lock.require(); }), HasSubstr("two must not write there"));
    second.require();
  }
  // Another machine that does not see the kernel's lock has written itself into the file.
  OwnerLock lock(path, options(std::chrono::minutes(1)));
  const FileDescriptor file(::open(path.c_str(), O_WRONLY));
  const std::string text = to_text(elsewhere());
  ASSERT_EQ(pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
  EXPECT_THAT(error_message([&] { lock.require(); }), HasSubstr("taken over by another process"));
}

// What a machine that lost power left of it.
TEST(OwnerLock, ATornFileIsTaken) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  for (const std::string& content : {std::string(), to_text(elsewhere()).substr(0, 100), std::string(512, '\0')}) {
    write_file(path, content);
    OwnerLock lock(path, options());
    lock.require();
  }
}

TEST(OwnerLock, NamesAPlaceThatCannotBeWritten) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { OwnerLock lock(folder / "none/run.lock", options()); }),
              AllOf(HasSubstr("none/run.lock"), HasSubstr("No such file"), HasSubstr("choose another folder")));
  fs::create_directory(folder / "run.lock");
  EXPECT_THAT(error_message([&] { OwnerLock lock(folder / "run.lock", options()); }), HasSubstr("directory"));
}

}  // namespace
}  // namespace partita
