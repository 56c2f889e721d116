#include "partita/base/mapping_guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// The byte at `at`, which is really read.
int byte_at(const MappedFile& file, int64_t at) {
  return *(reinterpret_cast<const volatile unsigned char*>(file.bytes().data()) + at);
}

class MappingGuard : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    write_file(path_, std::string(1 << 16, 'x'));
  }
  TemporaryDirectory folder_;
  const fs::path path_ = folder_ / "a b\n.bin";
};

TEST_F(MappingGuard, AFileThatShrinksIsNamed) {
  const auto shrink_and_read = [&] {
    install_mapping_guard();
    const MappedFile other(path_);
    MappedFile first(path_);
    const MappedFile file = std::move(first);  // the address stays
    if (byte_at(file, 60000) != 'x') return;
    fs::resize_file(path_, 100);
    std::thread([&] { (void)byte_at(file, 60000); }).join();
  };
  EXPECT_EXIT(shrink_and_read(), testing::ExitedWithCode(1), "a b\\\\x0a.bin became shorter, or its disk failed");
}

TEST_F(MappingGuard, WhatIsNotMappedHereEndsAsBefore) {
  const auto read_another = [&] {
    install_mapping_guard();
    const int file = ::open(path_.c_str(), O_RDONLY);
    { const MappedFile gone(path_); }
    const auto* map = static_cast<const volatile char*>(::mmap(nullptr, 1 << 16, PROT_READ, MAP_SHARED, file, 0));
    fs::resize_file(path_, 0);
    (void)map[5000];
  };
  EXPECT_EXIT(read_another(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappingGuard, LeavesOtherHandlersAlone) {
  const auto own_handler = [] {
    std::signal(SIGBUS, [](int) { ::_exit(7); });
    install_mapping_guard();
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(own_handler(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace partita::internal
