#include "partita/data/token_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "partita/data/indexed_writer.h"
#include "tests/data/sample.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Windows : public testing::Test {
 protected:
  // Tokens 0, 1, 2 ... over all sequences.
  std::shared_ptr<const IndexedDataset> write(const std::vector<int32_t>& lengths) {
    IndexedWriter writer(folder_ / "d", TokenType::i32);
    int32_t next = 0;
    for (const int32_t length : lengths) {
      std::vector<int32_t> tokens(static_cast<size_t>(length));
      std::iota(tokens.begin(), tokens.end(), next);
      next += length;
      writer.add_document(tokens);
    }
    writer.close();
    return std::make_shared<const IndexedDataset>(folder_ / "d");
  }
  TemporaryDirectory folder_;
};

TEST_F(Windows, LastOneIsPadded) {
  const TokenWindows windows(write({3, 4, 1}), 5);
  ASSERT_EQ(windows.size(), 2);
  EXPECT_THAT(read_sample(windows, 0).tokens, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(read_sample(windows, 0).labels, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(read_sample(windows, 1).tokens, ElementsAre(5, 6, 0, 0, 0));
  EXPECT_THAT(read_sample(windows, 1).labels, ElementsAre(6, 7, -1, -1, -1));
  EXPECT_THAT(read_sample(windows, 1).positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(error_message([&] { read_sample(windows, 2); }), HasSubstr("window 2 asked for, there are 2"));
}

// Each token but the first is the label of exactly one position, whose input is the token before.
TEST_F(Windows, EveryTokenIsPredictedOnce) {
  for (const std::vector<int32_t>& lengths :
       {std::vector<int32_t>{2}, {0, 1, 0, 0, 1}, {7, 0, 9, 1, 1, 30, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    const auto tokens = write(lengths);
    for (const int64_t length : {1, 2, 3, 7, 8, 47, 48, 100}) {
      const TokenWindows windows(tokens, length);
      int32_t next = 0;
      for (int64_t k = 0; k < windows.size(); ++k) {
        const Sample s = read_sample(windows, k);
        for (size_t t = 0; t < s.tokens.size(); ++t) {
          if (s.labels[t] == kIgnoredLabel) continue;
          EXPECT_EQ(s.tokens[t], next);
          EXPECT_EQ(s.labels[t], ++next);
        }
      }
      EXPECT_EQ(next, tokens->tokens() - 1) << length;
    }
  }
}

TEST_F(Windows, TooLittle) {
  EXPECT_THAT(error_message([&] { TokenWindows(write({1}), 4); }), HasSubstr("1 tokens: at least 2 expected"));
  EXPECT_THAT(error_message([&] { TokenWindows(write({4}), 0); }), HasSubstr("sequence length 0"));
}

}  // namespace
}  // namespace partita::internal
