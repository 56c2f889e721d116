#include "partita/data/gpt_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "partita/data/numpy_random.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(NumpyRandom, ShufflesAsNumpy) {
  // numpy.random.RandomState(seed).permutation(10)
  std::vector<int64_t> order(10);
  std::iota(order.begin(), order.end(), 0);
  NumpyRandom(0).shuffle(std::span(order));
  EXPECT_THAT(order, ElementsAre(2, 8, 4, 9, 1, 6, 7, 3, 0, 5));
  std::iota(order.begin(), order.end(), 0);
  NumpyRandom(42).shuffle(std::span(order));
  EXPECT_THAT(order, ElementsAre(8, 1, 5, 0, 7, 2, 9, 4, 3, 6));
}

TEST(NumpyRandom, IntervalsBeyond32Bits) {
  // numpy.random.RandomState(7).randint(0, 2**40 + 1, dtype=numpy.uint64) draws by the same masked rejection.
  NumpyRandom random(7);
  EXPECT_EQ(random.interval(int64_t{1} << 40), 752595690692U);
  EXPECT_EQ(random.interval(int64_t{1} << 40), 108744157686U);
  EXPECT_EQ(NumpyRandom(7).interval(0), 0U);
}

const std::vector<int32_t> kLengths = {5, 3, 7, 4, 6, 9, 2, 8};

TEST(GptIndex, GoldenOrder) {
  const GptIndex index =
      build_gpt_index({0, 8}, kLengths, {.split = "train", .sequence_length = 4, .samples = 12, .seed = 1234});
  EXPECT_EQ(index.plan, (EpochPlan{.epochs = 2, .separate_last = true, .samples = 21, .samples_before_last = 10}));
  EXPECT_THAT(index.sequences, ElementsAre(2, 1, 6, 0, 4, 5, 3, 7, 5, 0, 3, 4, 2, 6, 1, 7));
  EXPECT_THAT(index.shuffle, ElementsAre(3, 9, 2, 1, 7, 5, 4, 0, 8, 6, 18, 11, 19, 14, 13, 17, 16, 20, 15, 10, 12));
  EXPECT_EQ(index.starts.size(), 22U);
  EXPECT_EQ(index.starts[0], (TokenPosition{0, 0}));
  EXPECT_EQ(index.starts[1], (TokenPosition{0, 4}));  // token 4 of sequence 2, of 7 tokens
  EXPECT_EQ(index.starts[2], (TokenPosition{1, 1}));
}

TEST(GptIndex, IdsCountFromTheRangesBegin) {
  const GptIndex index = build_gpt_index({100, 108}, kLengths, {.sequence_length = 4, .samples = 12});
  EXPECT_THAT(std::vector(index.sequences.begin(), index.sequences.begin() + 3), ElementsAre(102, 101, 106));
}

// Sequence ids of every token when the epochs are written out: sample i is tokens i*L .. i*L + L of it.
TEST(GptIndex, EqualsTheWrittenOutTokensForRandomSizes) {
  std::mt19937 random(8);
  int separate = 0, joined = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<int32_t> lengths(1 + random() % 12);
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 30);  // some empty
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const auto length = static_cast<int64_t>(1 + random() % 12);
    if (tokens < length + 1) continue;
    const auto wanted = static_cast<int64_t>(random() % 60);
    const auto first_id = static_cast<int64_t>(random() % 1000);
    const auto count = static_cast<int64_t>(lengths.size());
    const GptIndex index =
        build_gpt_index({first_id, first_id + count}, lengths,
                        {.sequence_length = length, .samples = wanted, .seed = static_cast<uint32_t>(random())});
    // The fewest epochs that hold what was asked for.
    int64_t epochs = 1;
    while (epochs * tokens < wanted * length + 1) ++epochs;
    ASSERT_EQ(index.plan.epochs, epochs);
    ASSERT_GE(index.size(), wanted);
    ASSERT_EQ(index.size(), (epochs * tokens - 1) / length);
    (index.plan.separate_last ? separate : joined) += epochs > 1 ? 1 : 0;

    std::vector<std::pair<int64_t, int64_t>> written;  // entry, offset
    for (size_t entry = 0; entry < index.sequences.size(); ++entry) {
      for (int64_t t = 0; t < lengths[static_cast<size_t>(index.sequences[entry] - first_id)]; ++t) {
        written.emplace_back(entry, t);
      }
    }
    std::vector<bool> seen(static_cast<size_t>(index.size()));
    for (int64_t k = 0; k < index.size(); ++k) {
      const int64_t number = index.shuffle[static_cast<size_t>(k)];
      ASSERT_FALSE(seen[static_cast<size_t>(number)]);
      seen[static_cast<size_t>(number)] = true;
      const auto [first, last] = index.sample(k);
      // What is read: from `first` through `last`; empty sequences on the way give nothing.
      const auto at = [&](TokenPosition p) {
        return std::find(written.begin(), written.end(), std::pair(p.entry, p.offset)) - written.begin();
      };
      if (first.offset < lengths[static_cast<size_t>(index.sequences[static_cast<size_t>(first.entry)] - first_id)]) {
        ASSERT_EQ(at(first), number * length);
      }
      ASSERT_EQ(at(last), (number + 1) * length);
    }
    // A separate last epoch stays last, in sequences and in samples.
    if (index.plan.separate_last) {
      for (int64_t epoch : {int64_t{0}, epochs - 1}) {
        std::vector<int64_t> ids(index.sequences.begin() + epoch * count,
                                 index.sequences.begin() + (epoch + 1) * count);
        if (epoch > 0) {
          std::sort(ids.begin(), ids.end());
          for (int64_t i = 0; i < count; ++i) ASSERT_EQ(ids[static_cast<size_t>(i)], first_id + i);
        }
      }
      const auto before = index.plan.samples_before_last;
      for (int64_t k = 0; k < index.size(); ++k) {
        ASSERT_EQ(index.shuffle[static_cast<size_t>(k)] < before, k < before);
      }
    }
  }
  EXPECT_GT(separate, 20);
  EXPECT_GT(joined, 20);
}

TEST(GptIndex, SamplesAskedForAreKeptWithinThePlan) {
  // One epoch of 44 tokens holds 10 samples of 4; the 80 % border lies at 8 of the last epoch's.
  const auto plan = [](int64_t samples) { return plan_epochs({.sequence_length = 4, .samples = samples}, 8, 44); };
  EXPECT_EQ(plan(0), (EpochPlan{.epochs = 1, .samples = 10}));
  EXPECT_EQ(plan(10), (EpochPlan{.epochs = 1, .samples = 10}));
  EXPECT_EQ(plan(17), (EpochPlan{.epochs = 2, .separate_last = true, .samples = 21, .samples_before_last = 10}));
  EXPECT_EQ(plan(18), (EpochPlan{.epochs = 2, .separate_last = false, .samples = 21, .samples_before_last = 10}));
  EXPECT_EQ(plan(22).epochs, 3);
  // Beyond 32 bits: 10^13 tokens.
  const EpochPlan large = plan_epochs({.sequence_length = 2048, .samples = 6'000'000'000}, 1, 10'000'000'000'000);
  EXPECT_EQ(large.epochs, 2);
  EXPECT_EQ(large.samples, 9'765'624'999);
}

TEST(GptIndex, NamesSplitTokensAndSamples) {
  EXPECT_THAT(
      error_message([] { return plan_epochs({.split = "valid", .sequence_length = 1024, .samples = 80}, 3, 120); }),
      AllOf(HasSubstr("split \"valid\" has 120 tokens in 3 sequences"), HasSubstr("one sample needs 1025")));
  EXPECT_THAT(error_message([] {
                return build_gpt_index({5, 5}, {}, {.split = "test", .sequence_length = 4});
              }),
              HasSubstr("split \"test\" has 0 tokens in 0 sequences"));
  EXPECT_THAT(error_message([] { return plan_epochs({.sequence_length = 0}, 1, 10); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_message([] { return plan_epochs({.sequence_length = 1, .samples = -1}, 1, 10); }),
              HasSubstr("-1 samples asked for"));
}

}  // namespace
}  // namespace partita::internal
