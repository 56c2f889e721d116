#include "partita/base/last_resort.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "partita/base/failure.h"
#include "partita/base/printable.h"

namespace partita::internal {
namespace {

// Nothing here may allocate: fixed texts, and async-signal-safe calls only.
constexpr const char* kOutOfMemory =
    "partita: out of memory: the system gave this process no more; use a smaller model or smaller batches, fewer "
    "threads, or raise the limit (ulimit -v, the control group)\n";
constexpr const char* kSegmentationFault =
    "partita: an error of this program (segmentation fault); please report it, with the command and the output of "
    "PARTITA_LOG=debug\n";
constexpr int64_t kLeastLeft = int64_t{256} << 20;
constexpr size_t kReserve = size_t{1} << 20;

void (*end_process)(int) = nullptr;
std::atomic<void*> reserve = nullptr;  // freed when memory runs out, to build the error message

void say(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

[[noreturn]] void end_with_error() {
  static volatile std::sig_atomic_t ending = 0;
  if (ending == 0 && end_process != nullptr) {
    ending = 1;
    end_process(1);
  }
  _exit(1);
}

void out_of_memory() {
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

void on_terminate() {
  static volatile std::sig_atomic_t terminating = 0;
  if (terminating != 0) end_with_error();
  terminating = 1;
  if (std::current_exception()) {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      say(kOutOfMemory);
    } catch (...) {
      say(("partita: " + printable(current_failure_text()) + "\n").c_str());
    }
  } else {
    say("partita: an error of this program (std::terminate); please report it, with the command\n");
  }
  end_with_error();
}

// The first number in /proc/self/statm: pages of address space.
int64_t used_address_space() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 64> text{};
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  int64_t pages = 0;
  for (ssize_t i = 0; i < length && text[static_cast<size_t>(i)] >= '0' && text[static_cast<size_t>(i)] <= '9'; ++i)
    pages = pages * 10 + (text[static_cast<size_t>(i)] - '0');
  return pages * sysconf(_SC_PAGESIZE);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PARTITA_ADDRESS_SANITIZER  // for clang; gcc defines __SANITIZE_ADDRESS__
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(PARTITA_ADDRESS_SANITIZER)
constexpr bool kAddressSanitizer = true;  // its own report is better, also for stack overflows
#else
constexpr bool kAddressSanitizer = false;
#endif

struct sigaction earlier {
};  // of SIGSEGV: handlers installed earlier by the environment, such as a profiler or sanitizer

void on_segmentation_fault(int signal, siginfo_t* info, void*) {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (limited && is_nearly_used_up(static_cast<int64_t>(limit.rlim_cur), used_address_space())) {
    say(kOutOfMemory);
    _exit(1);
  }
  say(kSegmentationFault);
  sigaction(signal, &earlier, nullptr);
  // On return the faulting instruction runs again and ends in the earlier handler, or a core dump, with its address. A
  // signal sent by a process would not recur.
  if (info->si_code <= 0) raise(signal);
}

void install_fault_handler() {
  struct sigaction now {};
  if (kAddressSanitizer || sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_sigaction == on_segmentation_fault) return;
  earlier = now;
  // On a separate stack, since the regular one may have overflowed.
  static std::array<std::byte, size_t{64} << 10> stack;
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&own, nullptr);
  struct sigaction fault {};
  fault.sa_sigaction = on_segmentation_fault;
  fault.sa_flags = SA_ONSTACK | SA_SIGINFO;
  sigaction(SIGSEGV, &fault, nullptr);
}

}  // namespace

bool is_nearly_used_up(int64_t limit, int64_t used) {
  return limit > 0 && limit - used < std::max(limit / 4, kLeastLeft);
}

void install_last_resort(void (*end)(int exit_code)) {
  end_process = end;
  std::free(reserve.exchange(std::calloc(1, kReserve)));
  std::set_new_handler(out_of_memory);
  std::set_terminate(on_terminate);
  install_fault_handler();
}

}  // namespace partita::internal
