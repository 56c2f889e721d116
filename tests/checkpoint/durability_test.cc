// State of a checkpoint after a power failure: only data that is on disk gets its final name, and a folder is never
// half removed under its name. Records the relevant system calls in order.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>

#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "tests/checkpoint/file_calls.h"
#include "tests/checkpoint/saving.h"
#include "tests/checkpoint/test_state.h"
#include "tests/support/temporary_directory.h"

namespace {

std::mutex calls_mutex;
std::vector<std::string> calls;
bool recording = false;

void record(const std::string& call) {
  const std::lock_guard lock(calls_mutex);
  if (recording) calls.push_back(call);
}

std::string name_of_path(const char* path) { return std::filesystem::path(path).filename(); }

// "rank-00000.safetensors.123-0.tmp" without the ending.
std::string without_temporary_ending(std::string name) {
  if (!name.ends_with(".tmp")) return name;
  return name.substr(0, name.rfind('.', name.size() - 5));
}

}  // namespace

bool partita::internal::test::can_exchange = true;

// In place of the C library's.
extern "C" int fsync(int file) {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size() - 1);
  if (size > 0) record("sync " + without_temporary_ending(name_of_path(path.data())));
  return static_cast<int>(::syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  record("rename " + name_of_path(to));
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int renameat2(int a, const char* from, int b, const char* to, unsigned flags) noexcept {
  if ((flags & RENAME_EXCHANGE) != 0) {
    if (!partita::internal::test::can_exchange) {
      errno = EINVAL;
      return -1;
    }
    record("exchange " + name_of_path(to));
  }
  return static_cast<int>(::syscall(SYS_renameat2, a, from, b, to, flags));
}

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::ElementsAre;

class Durability : public testing::Test {
 protected:
  // The calls of `action`.
  template <class Action>
  std::vector<std::string> calls_of(const Action& action) {
    calls.clear();
    recording = true;
    action();
    recording = false;
    return calls;
  }
  void TearDown() override {
    recording = false;
    can_exchange = true;
  }
  fs::path save_step(int64_t step, uint32_t seed = 1) {
    const GlobalValues values({{"w", {5}, DType::fp32}}, seed);
    return save(root_.path(), step, values, 1);
  }
  TemporaryDirectory root_;
};

TEST_F(Durability, ACheckpointHasItsNameOnlySinceItIsOnTheDisk) {
  const std::string root = root_.path().filename();
  EXPECT_THAT(calls_of([&] { save_step(7); }),
              ElementsAre("sync rank-00000.safetensors", "rename rank-00000.safetensors", "sync step-00000007.partial",
                          "sync manifest.json", "rename manifest.json", "sync step-00000007.partial",
                          "rename step-00000007", "sync " + root));
}

TEST_F(Durability, OneOfTwoCheckpointsOfAStepIsThereAtEveryMoment) {
  save_step(7, 1);
  const std::string root = root_.path().filename();
  const std::vector<std::string> last = calls_of([&] { save_step(7, 2); });
  EXPECT_THAT(std::vector<std::string>(last.end() - 2, last.end()),
              ElementsAre("exchange step-00000007", "sync " + root));
  EXPECT_EQ(list_steps(root_.path()).size(), 1U);
  EXPECT_TRUE(fs::equivalent(find_latest(root_.path()).value(), root_.path() / "step-00000007"));
}

// NFS cannot exchange two names: the older one makes way, under a name that the next save removes.
TEST_F(Durability, WithoutAnExchangeTheOlderOneMakesWay) {
  save_step(7, 1);
  can_exchange = false;
  const std::string root = root_.path().filename();
  const std::vector<std::string> last = calls_of([&] { save_step(7, 2); });
  EXPECT_THAT(std::vector<std::string>(last.end() - 3, last.end()),
              ElementsAre("rename step-00000007.replaced.partial", "rename step-00000007", "sync " + root));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(read_manifest(root_.path() / "step-00000007").step, 7);
}

TEST_F(Durability, ACheckpointLosesItsNameBeforeItsFiles) {
  const fs::path folder = save_step(7);
  EXPECT_THAT(calls_of([&] { remove_checkpoint(folder); }), ElementsAre("rename step-00000007.partial"));
  EXPECT_TRUE(fs::is_empty(root_.path()));
}

}  // namespace
}  // namespace partita::internal
