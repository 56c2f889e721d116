#include "partita/base/last_resort.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <thread>

#include "partita/base/thread_limit.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

TEST(IsNearlyUsedUp, OfALimit) {
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_FALSE(is_nearly_used_up(0, 1 << 30));  // no limit
  EXPECT_FALSE(is_nearly_used_up(8000 * kMiB, 1000 * kMiB));
  EXPECT_TRUE(is_nearly_used_up(8000 * kMiB, 7000 * kMiB));
  EXPECT_TRUE(is_nearly_used_up(600 * kMiB, 400 * kMiB));
}

// Each in a process of its own.
class LastResort : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void end(int code) { _exit(code + 40); }

TEST_F(LastResort, ExceptionThatLeavesAThread) {
  EXPECT_EXIT(
      {
        install_last_resort(end);
        std::thread([] { throw std::runtime_error("could not create a primitive"); }).join();
      },
      testing::ExitedWithCode(41), "^partita: oneDNN, the library of the CPU kernels, failed");
  EXPECT_EXIT(
      {
        install_last_resort(end);
        std::thread([] { throw std::bad_alloc(); }).join();
      },
      testing::ExitedWithCode(41), "^partita: out of memory: ");
}

TEST_F(LastResort, TerminateWithoutAnException) {
  EXPECT_EXIT(
      {
        install_last_resort(nullptr);
        std::terminate();
      },
      testing::ExitedWithCode(1), "^partita: an error of this program");
}

#ifndef __SANITIZE_ADDRESS__  // which has a handler of its own
TEST_F(LastResort, SegmentationFaultKeepsItsSignal) {
  EXPECT_EXIT(
      {
        install_last_resort(end);
        raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "^partita: an error of this program \\(segmentation fault\\)");
}

// As a profiler or a sanitizer installs one: it sees the address too.
TEST_F(LastResort, SegmentationFaultEndsInTheHandlerThatWasThereBefore) {
  const auto install = [] {
    struct sigaction tool {};
    tool.sa_sigaction = [](int, siginfo_t* info, void*) {
      const bool seen = info->si_code <= 0 || info->si_addr == reinterpret_cast<void*>(64);
      const char text[] = "the tool's report\n";
      (void)!write(STDERR_FILENO, text, sizeof text - 1);
      _exit(seen ? 7 : 8);
    };
    tool.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &tool, nullptr);
    install_last_resort(end);
    install_last_resort(end);  // the second time it finds its own
  };
  constexpr const char* kBoth =
      "^partita: an error of this program \\(segmentation fault\\)[^\n]*\nthe tool's report\n";
  EXPECT_EXIT(
      {
        install();
        raise(SIGSEGV);
      },
      testing::ExitedWithCode(7), kBoth);
  EXPECT_EXIT(
      {
        install();
        volatile uintptr_t address = 64;
        *reinterpret_cast<volatile char*>(address) = 1;
      },
      testing::ExitedWithCode(7), kBoth);
}
#endif

TEST(RequireThreads, StartsThemOrSaysWhy) {
  EXPECT_EQ(error_message([] { require_threads(0); }), "no error");
  EXPECT_EQ(error_message([] { require_threads(1); }), "no error");
  EXPECT_EQ(error_message([] { require_threads(16); }), "no error");
  EXPECT_EQ(error_message([] { require_threads(1'000'000); }),
            "1000000 threads per rank were asked for, at most 1024 are possible: lower train.threads or "
            "OMP_NUM_THREADS");
}

TEST_F(LastResort, ThreadsThatTheSystemRefuses) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{512} << 20);
        setrlimit(RLIMIT_AS, &limit);
        const std::string message = error_message([] { require_threads(kMostThreads); });
        std::fprintf(stderr, "%s\n", message.c_str());
        _exit(message.find("the system started only") == std::string::npos ? 1 : 0);
      },
      testing::ExitedWithCode(0), "1024 threads per rank were asked for");
}

}  // namespace
}  // namespace partita::internal
