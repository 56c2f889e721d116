#include "partita/base/owner_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <sstream>
#include <thread>

#include "partita/base/timer.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace {
std::atomic<bool> no_locks = false;  // a file system without locks
}

// In place of the C library's.
extern "C" int flock(int file, int operation) noexcept {
  if (!no_locks) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = ENOLCK;
  return -1;
}

namespace partita::internal {
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

// Numbers of processes are given again: the moment of the start, field 22 of /proc/PID/stat, tells two of them apart.
// The name, field 2, may hold anything.
TEST(OwnerLock, KnowsWhenAProcessWasStarted) {
  std::array<char, 16> name{};
  ASSERT_EQ(::prctl(PR_GET_NAME, name.data()), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, "a) b (c) 7"), 0);
  const std::string stat = read_file("/proc/self/stat"), holder = this_process().started;
  ::prctl(PR_SET_NAME, name.data());
  const std::string named = fmt::format("{} (a) b (c) 7) ", getpid());
  ASSERT_TRUE(stat.starts_with(named)) << stat;
  std::istringstream rest(stat.substr(named.size()));
  const std::vector<std::string> from_field_3{std::istream_iterator<std::string>(rest), {}};
  EXPECT_EQ(holder, from_field_3.at(22 - 3));
  EXPECT_GT(std::stoll(holder), 0);
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

// For those who wait on another machine the word that it stops is a heartbeat too.
TEST(OwnerLock, SayingThatItStopsIsAHeartbeat) {
  const TemporaryDirectory folder;
  OwnerLock lock(folder / "run.lock", options(std::chrono::minutes(10)));
  const int64_t before = parse_lock_holder(read_file(folder / "run.lock"))->beats;
  lock.say_stopping();
  const LockHolder said = parse_lock_holder(read_file(folder / "run.lock")).value();
  EXPECT_TRUE(said.stopping);
  EXPECT_EQ(said.beats, before + 1);
}

TEST(OwnerLock, OfAProcessThatSaysThatItStopsIsWaitedFor) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  auto first = std::make_unique<OwnerLock>(path, options());
  first->say_stopping();
  std::thread ends([&] {
    usleep(400'000);  // longer than the grace of one that does not say so
    first.reset();
  });
  OwnerLock::Options patient = options();
  patient.times.stopping = 60;
  EXPECT_EQ(error_message([&] { OwnerLock(path, patient).require(); }), "no error");
  ends.join();
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
  // By the clock of the file system it has been silent for long enough: nothing to wait for.
  write_file(path, to_text(elsewhere()));
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
  OwnerLock::Options patient = options();
  patient.times.stale = 600;
  { OwnerLock(path, patient).require(); }
  // It beats on: refused, long before it would be stale. A container of this host has its name and is another machine.
  const auto neighbour = [](int64_t beats) {
    LockHolder holder = elsewhere(beats);
    holder.host = this_process().host;
    return holder;
  };
  write_file(path, to_text(neighbour(3)));
  std::atomic<bool> done = false;
  std::thread other([&] {
    // In place, as a heartbeat is: the file stays the same one.
    const FileDescriptor file(::open(path.c_str(), O_WRONLY));
    for (int64_t beats = 4; !done; ++beats) {
      const std::string text = to_text(neighbour(beats));
      EXPECT_EQ(pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
      usleep(50'000);
    }
  });
  EXPECT_THAT(error_message([&] { OwnerLock lock(path, patient); }),
              AllOf(HasSubstr("runs/a is in use by process 77 on " + this_process().host + " (job 9"),
                    testing::Not(HasSubstr("remove"))));
  done = true;
  other.join();
}

// The server of a file system may hold the lock of a machine that has died: the message says what helps.
TEST(OwnerLock, OfASilentMachineWhoseLockIsHeldMayBeRemoved) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  write_file(path, to_text(elsewhere()));
  const FileDescriptor server(::open(path.c_str(), O_RDWR));
  ASSERT_EQ(flock(server.get(), LOCK_EX), 0);
  const Timer timer;
  EXPECT_THAT(error_message([&] { OwnerLock lock(path, options()); }),
              HasSubstr("if that process no longer exists, remove " + path.string()));
  EXPECT_GE(timer.seconds(), kShort.stale);
}

TEST(OwnerLock, WithoutLocksOfTheFileSystemProcessesAreToldApartByTheirStart) {
  const TemporaryDirectory folder;
  const fs::path path = folder / "run.lock";
  no_locks = true;
  LockHolder holder = this_process();
  write_file(path, to_text(holder));
  EXPECT_THAT(error_message([&] { OwnerLock lock(path, options()); }), HasSubstr("is in use by process"));
  holder.started = "1";  // another process had the number before
  write_file(path, to_text(holder));
  EXPECT_EQ(error_message([&] { OwnerLock(path, options()).require(); }), "no error");
  no_locks = false;
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
  // Another process that does not see the kernel's lock has written itself into the file: of another machine, where
  // numbers of processes are the same in many a container, or of this one.
  LockHolder same_number = elsewhere(), same_machine = elsewhere();
  same_number.process = getpid();
  same_machine.machine = this_process().machine;
  for (const LockHolder& other : {elsewhere(), same_number, same_machine}) {
    {
      OwnerLock lock(path, options());
      const FileDescriptor file(::open(path.c_str(), O_WRONLY));
      const std::string text = to_text(other);
      ASSERT_EQ(pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
      EXPECT_THAT(error_message([&] { lock.require(); }), HasSubstr("taken over by another process"));
      // What is the other's stays as it is: no heartbeat, no word, no removal.
      lock.say_stopping();
      EXPECT_EQ(read_file(path), text);
      usleep(100'000);
      EXPECT_EQ(read_file(path), text);
    }
    ASSERT_TRUE(fs::exists(path));
    EXPECT_EQ(parse_lock_holder(read_file(path)), other);
    fs::remove(path);
  }
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
  // A link to a file of somebody's is not followed.
  write_file(folder / "mine", "mine");
  fs::create_symlink(folder / "mine", folder / "link.lock");
  EXPECT_THAT(error_message([&] { OwnerLock lock(folder / "link.lock", options()); }), HasSubstr("link.lock"));
  EXPECT_EQ(read_file(folder / "mine"), "mine");
}

TEST(OwnerLock, NamesADiskThatIsFull) {
  const TemporaryDirectory folder;
  for (const rlim_t room : {0, 100}) {
    const FileSizeLimit full(room);
    EXPECT_THAT(error_message([&] { OwnerLock lock(folder / "run.lock", options()); }),
                AllOf(HasSubstr("cannot write"), HasSubstr("run.lock"), HasSubstr("limit of")))
        << room;
  }
}

}  // namespace
}  // namespace partita::internal
