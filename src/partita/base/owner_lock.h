// Ownership of something that one process has for as long as it runs: a run's folder. Whoever comes second is refused,
// and told who has it. Not for a short stretch of work that processes do in turn, such as writing a shared file: there
// each waits for the one before, by FileLock (base/file.h).
//
//   OwnerLock lock("runs/a/run.lock", {.what = "runs/a", .advice = "choose another run.directory"});
//   // Error: runs/a is in use by process 1234 on node5 (job 77, since 12:30:05): wait for its end or stop it, or ...
//   lock.require();                    // before writing what must not be written twice
//
// The file holds process, host and job of its holder, the kernel's lock on it, and a heartbeat every ten seconds
// (lock_rule.h says how they are read). The destructor removes the file; that of a process that was killed is taken
// over by the next one.
#pragma once
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "partita/base/file.h"
#include "partita/base/lock_rule.h"

namespace partita::internal {

// Who holds a lock, as the file says it.
struct LockHolder {
  std::string host;
  int64_t process = 0;
  std::string machine;  // this boot of it, and the name space of process numbers
  std::string started;  // of the process, in the kernel's units: numbers are given again
  std::string job;      // of Slurm; empty: none
  std::string since;    // local time
  int64_t beats = 0;
  bool stopping = false;

  bool operator==(const LockHolder&) const = default;
};

[[nodiscard]] LockHolder this_process();
// One line of a fixed length, so that a heartbeat needs no room on a full disk.
[[nodiscard]] std::string to_text(const LockHolder&);
// Nothing: the text is cut short or no such text.
[[nodiscard]] std::optional<LockHolder> parse_lock_holder(std::string_view text);
// "process 1234 on node5 (job 77, since 2026-01-31 12:30:05)"
[[nodiscard]] std::string describe(const LockHolder&);

class OwnerLock {
 public:
  struct Options {
    std::string what;    // is in use, in the message
    std::string advice;  // what else can be done
    std::chrono::milliseconds beat{10'000};
    LockTimes times{};
  };

  // Waits as lock_rule.h says. Error: somebody else has it; the file cannot be written.
  OwnerLock(std::filesystem::path path, Options options);
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;
  ~OwnerLock();

  // Error: the lock was lost, because its file was removed, or because somebody else took this process for dead.
  void require();
  // Tells those who wait that this process is about to end.
  void say_stopping();

 private:
  void acquire();
  [[nodiscard]] bool is_ours();
  void beat();

  std::filesystem::path path_;
  Options options_;
  FileDescriptor file_;
  std::mutex mutex_;  // of holder_ and the file's content
  LockHolder holder_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread heart_;
};

}  // namespace partita::internal
