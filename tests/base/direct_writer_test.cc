#include "partita/base/direct_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBuffer = DirectWriter::kBufferBytes, kBlock = DirectWriter::kBlock;

std::string random_text(int64_t bytes, uint32_t seed) {
  std::mt19937 draw(seed);
  std::string text(static_cast<size_t>(bytes), '\0');
  std::ranges::generate(text, [&] { return static_cast<char>(draw()); });
  return text;
}

FileDescriptor new_file(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

TEST(DirectWriter, WritesEveryByteInPiecesOfAnySize) {
  const TemporaryDirectory folder;
  uint32_t seed = 1;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, kBlock - 1, kBlock, kBlock + 1, kBuffer, kBuffer + kBlock,
                              2 * kBuffer + 7, 3 * kBuffer - 1, 5 * kBuffer + 12345}) {
    const std::string text = random_text(bytes, ++seed);
    const fs::path path = folder / std::to_string(bytes);
    const FileDescriptor file = new_file(path);
    DirectWriter out(file.get(), path);
    std::mt19937 draw(seed);
    for (size_t at = 0; at < text.size();) {
      const size_t count = std::min<size_t>(text.size() - at, draw() % (seed % 2 == 0 ? 100'000 : 20'000'000));
      out.write(std::as_bytes(std::span(text).subspan(at, count)));
      at += count;
    }
    out.finish();
    EXPECT_TRUE(read_file(path) == text) << bytes;
  }
}

TEST(DirectWriter, IsGivenUpAtAnyTime) {
  const TemporaryDirectory folder;
  const std::string text = random_text(3 * kBuffer, 5);
  for (const int64_t bytes : {int64_t{0}, int64_t{100}, kBuffer, 3 * kBuffer}) {
    const fs::path path = folder / std::to_string(bytes);
    const FileDescriptor file = new_file(path);
    DirectWriter out(file.get(), path);
    out.write(std::as_bytes(std::span(text).first(static_cast<size_t>(bytes))));
  }
}

// The error of the thread reaches the caller, at the latest in finish().
TEST(DirectWriter, ReportsAFailedWrite) {
  const TemporaryDirectory folder;
  const std::string text = random_text(4 * kBuffer, 6);
  for (const int64_t limit : {kBlock, kBuffer + kBlock, 4 * kBuffer - kBlock}) {
    const fs::path path = folder / std::to_string(limit);
    const FileDescriptor file = new_file(path);
    const FileSizeLimit full(static_cast<uint64_t>(limit));
    DirectWriter out(file.get(), path);
    EXPECT_THAT(error_message([&] {
                  out.write(std::as_bytes(std::span(text)));
                  out.finish();
                }),
                AllOf(HasSubstr(path.string()), HasSubstr("ulimit -f")));
  }
}

TEST(AtomicFile, LargeOnesAreReservedFirst) {
  const TemporaryDirectory folder;
  const int64_t bytes = int64_t{40} << 20;
  const std::string text = random_text(bytes, 7);
  {
    AtomicFile out(folder / "whole");
    out.expect(bytes);
    out.write(std::string_view(text).substr(0, 1000));
    out.write(std::string_view(text).substr(1000));
    EXPECT_EQ(out.size(), bytes);
    out.commit();
  }
  EXPECT_TRUE(read_file(folder / "whole") == text);
  {
    const FileSizeLimit full(static_cast<uint64_t>(bytes / 2));
    AtomicFile out(folder / "full");
    EXPECT_THAT(error_message([&] { out.expect(bytes); }), AllOf(HasSubstr("full"), HasSubstr("ulimit -f")));
  }
  {
    AtomicFile out(folder / "given up");
    out.expect(bytes);
    out.write(text);
  }
  EXPECT_EQ(std::ranges::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace partita::internal
