#include "partita/base/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/host.h"
#include "partita/base/json.h"
#include "partita/base/local_time.h"
#include "partita/base/log.h"
#include "partita/base/process_stat.h"
#include "partita/base/timer.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLength = 512;  // of the file in bytes
constexpr std::chrono::milliseconds kLook{200};
constexpr double kQuiet = 1;  // seconds of waiting before a message is shown

std::string first_line(const char* path) {
  try {
    const std::string text = read_file(path);
    return text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

// Start time of a process; empty: no such process.
std::string start_of(int64_t process) {
  const auto stat = process_stat(process);
  return stat ? fmt::format("{}", stat->started) : "";
}

std::string machine() {
  std::error_code ignored;
  return first_line("/proc/sys/kernel/random/boot_id") + " " + fs::read_symlink("/proc/self/ns/pid", ignored).string();
}

// Seconds since the file's last change, by the file system's clock, which may be another machine's.
double age_of(const FileDescriptor& file, const fs::path& path) {
  fs::path probe = path;
  probe += fmt::format(".{}-0.tmp", ::getpid());
  const FileDescriptor now(::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  struct stat then_info {
  }, now_info{};
  const bool known = now && ::write(now.get(), "x", 1) == 1 && ::fsync(now.get()) == 0 &&
                     ::fstat(now.get(), &now_info) == 0 && ::fstat(file.get(), &then_info) == 0;
  ::unlink(probe.c_str());
  const auto seconds = [](const struct stat& info) {
    return static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
  };
  return known ? seconds(now_info) - seconds(then_info) : 0;
}

std::string read_start(const FileDescriptor& file) {
  std::string text(kLength, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

bool is_at(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

// False on failure, including a partial write; errno has the reason.
bool write_start(const FileDescriptor& file, std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::pwrite(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

KernelLock try_lock(const FileDescriptor& file) {
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? KernelLock::held : KernelLock::unknown;
  }
  return KernelLock::free;
}

}  // namespace

LockHolder this_process() {
  const char* job = std::getenv("SLURM_JOB_ID");
  return {.host = host_name(),
          .process = ::getpid(),
          .machine = machine(),
          .started = start_of(::getpid()),
          .job = job == nullptr ? "" : job,
          .since = local_time(std::time(nullptr))};
}

std::string to_text(const LockHolder& h) {
  const nlohmann::json json = {{"host", h.host},   {"process", h.process},  {"machine", h.machine},
                               {"job", h.job},     {"started", h.started},  {"since", h.since},
                               {"beats", h.beats}, {"stopping", h.stopping}};
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() < kLength) text.resize(kLength - 1, ' ');
  return text + "\n";
}

std::optional<LockHolder> parse_lock_holder(std::string_view text) {
  const size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  const auto json = try_parse_json(text.substr(0, end));
  if (!json || !json->is_object()) return std::nullopt;
  try {
    LockHolder h;
    json->at("host").get_to(h.host);
    json->at("process").get_to(h.process);
    json->at("machine").get_to(h.machine);
    json->at("started").get_to(h.started);
    json->at("job").get_to(h.job);
    json->at("since").get_to(h.since);
    json->at("beats").get_to(h.beats);
    json->at("stopping").get_to(h.stopping);
    return h;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string describe(const LockHolder& h) {
  return fmt::format("process {} on {} ({}since {})", h.process, h.host,
                     h.job.empty() ? "" : fmt::format("job {}, ", h.job), h.since);
}

OwnerLock::OwnerLock(fs::path path, Options options)
    : path_(std::move(path)), options_(std::move(options)), holder_(this_process()) {
  acquire();
  // Signals are for the worker threads: a handler here would run on this thread's small stack.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  heart_ = std::thread([this] { beat(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void OwnerLock::acquire() {
  const Timer timer;
  std::optional<LockHolder> first;
  bool said = false;
  for (;;) {
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (!file_) fail("cannot write {}: {}: {}", path_.string(), io_reason(errno), options_.advice);
    LockView view{.kernel = try_lock(file_), .watched = timer.seconds()};
    if (view.kernel != KernelLock::held && !is_at(file_, path_)) continue;  // its holder has just removed it
    const std::optional<LockHolder> found = parse_lock_holder(read_start(file_));
    if (found) {
      if (!first || first->process != found->process || first->machine != found->machine) first = found;
      view.holder = true;
      view.same_machine = found->machine == holder_.machine;
      view.alive = view.same_machine && start_of(found->process) == found->started;
      view.stopping = found->stopping;
      view.beats = found->beats != first->beats;
      if (view.kernel != KernelLock::held && !view.same_machine) view.age = age_of(file_, path_);
    }
    const std::string who = found ? describe(*found) : std::string("another process");
    const LockDecision decision = decide_lock(view, options_.times);
    if (decision == LockDecision::refuse)
      fail("{} is in use by {}: wait for it to end, stop it, or {}{}", options_.what, who, options_.advice,
           view.same_machine || view.beats
               ? ""
               : fmt::format("; if that process no longer exists, remove {}", path_.string()));
    if (decision == LockDecision::wait) {
      if (!said && view.watched > kQuiet) {
        said = true;
        log::info("waiting for {}, which has {}", who, options_.what);
      }
      std::this_thread::sleep_for(kLook);
      continue;
    }
    if (decision == LockDecision::take_over)
      log::info("{} was in use by {}, which is gone: continuing", options_.what, who);
    if (!write_start(file_, to_text(holder_))) fail("cannot write {}: {}", path_.string(), io_reason(errno));
    // If the kernel's lock does not reach other machines, two processes may get this far: the last writer wins.
    if (found && !view.same_machine) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (is_ours()) return;
  }
}

OwnerLock::~OwnerLock() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  heart_.join();
  if (is_ours()) ::unlink(path_.c_str());
}

// Whether the file still has the name and holds this process's text; the heartbeat counter is ignored.
bool OwnerLock::is_ours() {
  if (!is_at(file_, path_)) return false;
  const auto found = parse_lock_holder(read_start(file_));
  return found && found->process == holder_.process && found->machine == holder_.machine;
}

void OwnerLock::require() {
  const std::lock_guard lock(mutex_);
  if (!is_ours())
    fail("{} was lost: the lock {} was removed or taken over by another process, and two must not write there: {}",
         options_.what, path_.string(), options_.advice);
}

void OwnerLock::say_stopping() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(holder_.stopping, true) || !is_ours()) return;
  ++holder_.beats;
  (void)write_start(file_, to_text(holder_));
}

void OwnerLock::beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.beat, [this] { return done_; })) {
    if (!is_ours()) continue;  // require() will report it; or its disk is temporarily unavailable
    ++holder_.beats;
    (void)write_start(file_, to_text(holder_));  // on failure, the next one may work
  }
}

}  // namespace partita::internal
