#include "partita/base/process_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <vector>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

TEST(ProcessMemory, IsReadFromItsLines) {
  const ProcessMemory m = parse_process_memory(
      "Name:\tpartita\nVmHWM:\t  900 kB\nVmRSS:\t  700 kB\nRssAnon:\t  400 kB\nRssFile:\t  250 kB\nRssShmem:\t  50 "
      "kB\n");
  EXPECT_EQ(m.own, 450 << 10);
  EXPECT_EQ(m.files, 250 << 10);
  EXPECT_EQ(m.peak, 900 << 10);
  for (const char* other : {"", "VmHWM", "VmHWM: many kB\n"}) {
    EXPECT_EQ(parse_process_memory(other).own, 0);
    EXPECT_EQ(parse_process_memory(other).peak, 0);
  }
}

void touch(int64_t bytes) { const std::vector<char> memory(static_cast<size_t>(bytes), 1); }

// Also of memory that was given back, and not of what was there before.
TEST(ResidentPeak, IsTheMostSinceItsBeginning) {
  touch(96 * kMebibyte);
  ResidentPeak peak;
  EXPECT_LT(peak.bytes(), 8 * kMebibyte);
  touch(64 * kMebibyte);
  EXPECT_NEAR(static_cast<double>(peak.bytes()), 64.0 * kMebibyte, 4.0 * kMebibyte);
  touch(16 * kMebibyte);
  EXPECT_NEAR(static_cast<double>(peak.bytes()), 64.0 * kMebibyte, 4.0 * kMebibyte);
}

// Pages of a file that is read through memory are not the process's own.
TEST(ResidentPeak, LeavesFilesOut) {
  const TemporaryDirectory folder;
  write_file(folder / "large", std::string(64 * kMebibyte, 'x'));
  ResidentPeak peak;
  const MappedFile file(folder / "large");
  int64_t sum = 0;
  for (const char c : file.text()) sum += c;
  EXPECT_EQ(sum, 64 * kMebibyte * 'x');
  EXPECT_GT(process_memory().files, 64 * kMebibyte);
  EXPECT_LT(peak.bytes(), 8 * kMebibyte);
  touch(32 * kMebibyte);
  peak.sample();
  EXPECT_LT(peak.bytes(), 40 * kMebibyte);
}

}  // namespace
}  // namespace partita::internal
