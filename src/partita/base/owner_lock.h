// Long-lived ownership of a resource by one process, such as a run's folder. A second process is refused and told who
// the owner is. For short operations that processes take in turn, such as writing a shared file, use FileLock
// (base/file.h), which waits.
//
//   OwnerLock lock("runs/a/run.lock", {.what = "runs/a", .advice = "choose another run.directory"});
//   // Error: runs/a is in use by process 1234 on node5 (job 77, since 12:30:05): wait for its end or stop it, or ...
//   lock.require();                    // before each write that must have a single writer
//
// The file records the holder's process, host and job, carries the kernel's lock, and gets a heartbeat every ten
// seconds (lock_rule.h interprets them). The destructor removes the file; the next process takes over the lock of a
// killed one.
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

// The holder of a lock, as recorded in the file.
struct LockHolder {
  std::string host;
  int64_t process = 0;
  std::string machine;  // id of this boot and PID namespace
  std::string started;  // start time in kernel units, since process numbers are reused
  std::string job;      // Slurm job; empty: none
  std::string since;    // local time
  int64_t beats = 0;
  bool stopping = false;

  bool operator==(const LockHolder&) const = default;
};

[[nodiscard]] LockHolder this_process();
// One line of fixed length, so that heartbeats work on a full disk.
[[nodiscard]] std::string to_text(const LockHolder&);
// nullopt: truncated or malformed.
[[nodiscard]] std::optional<LockHolder> parse_lock_holder(std::string_view text);
// "process 1234 on node5 (job 77, since 2026-01-31 12:30:05)"
[[nodiscard]] std::string describe(const LockHolder&);

class OwnerLock {
 public:
  struct Options {
    std::string what;    // named as in use, in error messages
    std::string advice;  // alternatives, in error messages
    std::chrono::milliseconds beat{10'000};
    LockTimes times{};
  };

  // Waits according to lock_rule.h. Error: another process owns it; the file cannot be written.
  OwnerLock(std::filesystem::path path, Options options);
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;
  ~OwnerLock();

  // Error: the lock was lost because its file was removed, or because another process presumed this one dead.
  void require();
  // Announces to waiting processes that this one is about to end.
  void say_stopping();

 private:
  void acquire();
  [[nodiscard]] bool is_ours();
  void beat();

  std::filesystem::path path_;
  Options options_;
  FileDescriptor file_;
  std::mutex mutex_;  // guards holder_ and the file's content
  LockHolder holder_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread heart_;
};

}  // namespace partita::internal
