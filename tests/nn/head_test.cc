#include "partita/nn/head.h"

#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

constexpr int64_t kCache = int64_t{16} << 20;

TEST(HeadChunks, FillWhatTheyMay) {
  EXPECT_EQ(head_chunk_rows(8192, 50304, 2, int64_t{800} << 20), 8192);   // a GPU: all rows at once
  EXPECT_EQ(head_chunk_rows(65536, 50304, 2, int64_t{800} << 20), 8192);  // 8338 would fit: eight even chunks
  EXPECT_EQ(head_chunk_rows(2048, 4096, 4, kCache), 1024);
  EXPECT_EQ(head_chunk_rows(1025, 4096, 4, kCache), 513);     // two even ones, not 1024 and 1
  EXPECT_EQ(head_chunk_rows(100, 1'000'000, 4, kCache), 50);  // never fewer than 64 fit
  EXPECT_EQ(head_chunk_rows(0, 100, 4, kCache), 0);
}

// As many chunks as are needed, and all but the last equally long.
TEST(HeadChunks, AreEven) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1000; ++round) {
    const auto rows = static_cast<int64_t>(1 + random() % 5000),
               vocabulary = static_cast<int64_t>(1 + random() % 90000);
    const int64_t chunk = head_chunk_rows(rows, vocabulary, 4, kCache);
    const int64_t fitting = std::max<int64_t>(64, kCache / (vocabulary * 4));
    ASSERT_GE(chunk, 1);
    ASSERT_LE(chunk, fitting);
    EXPECT_EQ((rows + chunk - 1) / chunk, (rows + fitting - 1) / fitting) << rows << " rows of " << vocabulary;
  }
}

}  // namespace
}  // namespace partita::internal
