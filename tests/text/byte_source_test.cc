#include "partita/text/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "partita/base/file.h"
#include "partita/text/read_ahead.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"
#include "tests/text/compressed.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string words(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) text += std::to_string(random() % 5000) + (random() % 9 == 0 ? "\n" : " ");
  text.resize(bytes);
  return text;
}

class ByteSources : public testing::Test {
 protected:
  // Everything of a file with this content, asked for in pieces of these sizes at most.
  std::string read(const std::string& content, size_t most = 70'001) {
    write_file(path_, content);
    const auto source = open_bytes(path_);
    std::string found, piece(most, '\0');
    int64_t consumed = 0;
    std::mt19937 random(1);
    for (;;) {
      const size_t n = source->read(std::span(piece).first(1 + random() % most));
      if (n == 0) break;
      found.append(piece, 0, n);
      EXPECT_GE(source->consumed(), consumed);
      consumed = source->consumed();
    }
    EXPECT_EQ(source->consumed(), static_cast<int64_t>(content.size()));
    return found;
  }
  std::string refusal(const std::string& content) {
    return error_message([&] { read(content); });
  }
  TemporaryDirectory folder_;
  std::filesystem::path path_ = folder_ / "x";
};

TEST_F(ByteSources, EverySizeComesBack) {
  for (const size_t size : {0UL, 1UL, 3UL, 255UL, 65'536UL, 262'144UL, 700'001UL}) {
    const std::string text = words(size, static_cast<uint32_t>(size));
    for (const size_t most : {1UL, 7UL, 4096UL, 1'000'000UL}) {
      if (most < 100 && size > 70'000) continue;
      EXPECT_TRUE(read(text, most) == text) << size << " in " << most;
      EXPECT_TRUE(read(gzip(text), most) == text) << size << " in " << most;
      EXPECT_TRUE(read(zstd(text), most) == text) << size << " in " << most;
    }
  }
}

TEST_F(ByteSources, MembersAndFramesFollowEachOther) {
  std::string text, gzipped, zstded;
  for (uint32_t part = 0; part < 40; ++part) {
    const std::string piece = words(part * 1237 % 30'000, part);
    text += piece;
    gzipped += gzip(piece);
    zstded += zstd(piece);
  }
  EXPECT_TRUE(read(gzipped) == text);
  EXPECT_TRUE(read(zstded) == text);
  EXPECT_TRUE(read(gzipped + std::string(1025, '\0')) == text);  // filled up as on a tape
}

// As pzstd writes: before each frame one that is passed over and holds the frame's size.
TEST_F(ByteSources, FramesThatAreSkippedMayComeFirst) {
  for (int number = 0; number < 16; ++number) {
    std::string text, content;
    for (uint32_t part = 0; part < 3; ++part) {
      const std::string piece = words(20'011 * (part + 1), part), frame = zstd(piece);
      const auto size = static_cast<uint32_t>(frame.size());
      content += static_cast<char>(0x50 + number);
      content += std::string_view("\x2A\x4D\x18\x04\0\0\0", 7);
      content.append(reinterpret_cast<const char*>(&size), 4);
      content += frame;
      text += piece;
    }
    EXPECT_TRUE(read(content) == text) << number;
    EXPECT_EQ(compression_of(content, "x"), Compression::zstd);
  }
  for (const char* plain : {"\x60\x2A\x4D\x18", "\x4F\x2A\x4D\x18", "\x50\x2A\x4D\x19", "P*M"})
    EXPECT_EQ(compression_of(std::string_view(plain), "x"), Compression::none);
}

TEST_F(ByteSources, DamageIsFound) {
  const std::string text = words(300'000, 4), gzipped = gzip(text), zstded = zstd(text);
  for (const std::string& whole : {gzipped, zstded}) {
    for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{40}})
      EXPECT_THAT(refusal(whole.substr(0, size)), AllOf(HasSubstr(path_.string()), HasSubstr("cut short"))) << size;
  }
  EXPECT_THAT(refusal(gzipped + "more"), HasSubstr("something else follows the gzip data"));
  EXPECT_THAT(refusal(zstded + "more"), HasSubstr("damaged zstd data"));
  // A flipped bit is found by the checksum, if by nothing else.
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    std::string bad = gzipped;
    bad[10 + random() % (bad.size() - 14)] ^= static_cast<char>(1 << random() % 8);
    EXPECT_THAT(refusal(bad), HasSubstr("gzip data")) << round;
  }
}

TEST_F(ByteSources, OtherCompressionsAreNamed) {
  EXPECT_EQ(refusal("BZh91AY&SY"),
            fmt::format("{0} is compressed by bzip2; expected text or JSON lines, plain or compressed by gzip or zstd. "
                        "Use: bzcat {0} | partita ... --input -",
                        path_.string()));
  EXPECT_THAT(refusal(std::string("\xFD\x37zXZ\0\0", 7)), HasSubstr(". Use: xzcat " + path_.string() + " |"));
  EXPECT_EQ(read("BZh is a word"), "BZh is a word");
  EXPECT_THAT(error_message([] { return open_bytes("/nowhere"); }), HasSubstr("/nowhere"));
}

TEST_F(ByteSources, ReadingAheadKeepsOrderAndErrors) {
  const std::string text = words(5'000'000, 9), gzipped = gzip(text);
  write_file(path_, gzipped);
  std::string found;
  int64_t consumed = 0;
  ReadAhead ahead(open_bytes(path_));
  while (const auto block = ahead.next()) {
    found += block->bytes;
    EXPECT_GE(block->consumed, consumed);
    consumed = block->consumed;
  }
  EXPECT_TRUE(found == text);
  EXPECT_EQ(consumed, static_cast<int64_t>(gzipped.size()));

  write_file(path_, gzipped.substr(0, gzipped.size() / 2));
  ReadAhead cut(open_bytes(path_));
  EXPECT_THAT(error_message([&] {
                while (cut.next()) {
                }
              }),
              HasSubstr("cut short"));
  // One that nobody empties ends with its owner.
  write_file(path_, words(ReadAhead::kBlock * (ReadAhead::kMostBlocks + 3), 2));
  const ReadAhead unread(open_bytes(path_));
}

// Its writer stalls: who reads ahead can be given up all the same.
TEST_F(ByteSources, AStallingPipeIsGivenUp) {
  for (const std::string& begin : {std::string("text"), gzip("text").substr(0, 15), zstd("text").substr(0, 9)}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    const FileDescriptor out(ends[0]), in(ends[1]);
    ASSERT_EQ(write(in.get(), begin.data(), begin.size()), static_cast<ssize_t>(begin.size()));
    auto ahead = std::make_unique<ReadAhead>(open_bytes(fmt::format("/proc/self/fd/{}", out.get())));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it waits
    ahead.reset();
  }
}

}  // namespace
}  // namespace partita::internal
