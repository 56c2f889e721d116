#include "partita/device/stream_delay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "partita/device/device_stream.h"

namespace partita::internal {
namespace {

class StreamDelay : public testing::Test {
 protected:
  void TearDown() override { set_stream_delays(0, 0); }

  static std::vector<int64_t> draw(int64_t longest, uint64_t seed, int count) {
    set_stream_delays(longest, seed);
    std::vector<int64_t> delays;
    for (int i = 0; i < count; ++i) delays.push_back(next_stream_delay().count());
    return delays;
  }
};

TEST_F(StreamDelay, NoneAtTheStart) {
  EXPECT_FALSE(has_stream_delays());
  EXPECT_EQ(next_stream_delay().count(), 0);
}

TEST_F(StreamDelay, HalfAreNothingAndTheOthersWithinTheLongest) {
  const std::vector<int64_t> delays = draw(50, 7, 1000);
  EXPECT_TRUE(has_stream_delays());
  EXPECT_NEAR(static_cast<double>(std::ranges::count(delays, 0)), 500, 80);
  EXPECT_GE(std::ranges::min(delays), 0);
  EXPECT_EQ(std::ranges::max(delays), 50);
  EXPECT_EQ(std::ranges::max(draw(1, 7, 100)), 1);
}

TEST_F(StreamDelay, EachSeedHasItsOwnSequence) {
  const std::vector<int64_t> delays = draw(1000, 1, 50);
  EXPECT_EQ(draw(1000, 1, 50), delays);
  EXPECT_NE(draw(1000, 2, 50), delays);
}

TEST_F(StreamDelay, StreamsOfTheCpuSleep) {
  set_stream_delays(2000, 3);
  const std::unique_ptr<Stream> stream = make_stream(c10::kCPU, StreamUse::concurrent);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) stream->wait(stream->record());
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(5));
  int runs = 0;
  stream->run([&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace partita::internal
