#include "partita/base/removal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

// A signal that comes after the file is there and before create_removable returns.
TEST(RemovalDeathTest, ASignalDuringCreationLeavesNothing) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder / "file.tmp";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          remove_on_signals();
          create_removable(path, [&] {
            std::ofstream(path) << "half";
            kill(getpid(), signal);
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            return true;
          });
          for (;;) pause();
        },
        testing::KilledBySignal(signal), "");
    EXPECT_FALSE(std::filesystem::exists(path)) << signal;
  }
}

TEST(RemovalDeathTest, WhatWasNotCreatedIsAnothers) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder / "file.tmp";
  std::ofstream(path) << "another's";
  EXPECT_EXIT(
      {
        remove_on_signals();
        create_removable(path, [] { return false; });
        kill(getpid(), SIGTERM);
        for (;;) pause();
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(read_file(path), "another's");
}

}  // namespace
}  // namespace partita::internal
