// From token files to one rank's micro-batches: GptDataset, BatchPlan and BatchReader together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "partita/data/batch_plan.h"
#include "partita/data/batch_reader.h"
#include "partita/data/gpt_dataset.h"
#include "partita/data/indexed_writer.h"
#include "tests/data/sample.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Batches : public testing::Test {
 protected:
  // Token t of sequence s is 100 s + t.
  std::shared_ptr<const IndexedDataset> write(const std::vector<int32_t>& lengths) {
    IndexedWriter writer(folder_ / "d", TokenType::i32);
    for (size_t s = 0; s < lengths.size(); ++s) {
      std::vector<int32_t> tokens(static_cast<size_t>(lengths[s]));
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(100 * s));
      writer.add_document(tokens);
    }
    writer.close();
    return std::make_shared<const IndexedDataset>(folder_ / "d");
  }
  TemporaryDirectory folder_;
};

TEST_F(Batches, SamplesAreTheTokensOfTheShuffledSequences) {
  const std::vector<int32_t> lengths = {5, 3, 7, 0, 4, 6, 9, 2, 8, 0};
  const auto tokens = write(lengths);
  const GptDataset dataset(tokens, {1, 9}, {.sequence_length = 6, .samples = 15, .seed = 3});
  std::vector<int32_t> written;
  for (int64_t s : dataset.index().sequences) {
    for (int32_t t = 0; t < lengths[static_cast<size_t>(s)]; ++t) written.push_back(static_cast<int32_t>(100 * s) + t);
  }
  ASSERT_GE(dataset.size(), 15);
  for (int64_t k = 0; k < dataset.size(); ++k) {
    const Sample sample = read_sample(dataset, k);
    const auto begin = written.begin() + 6 * dataset.index().shuffle[static_cast<size_t>(k)];
    EXPECT_EQ(sample.tokens, std::vector<int32_t>(begin, begin + 6)) << k;
    EXPECT_EQ(sample.labels, std::vector<int32_t>(begin + 1, begin + 7)) << k;
    EXPECT_THAT(sample.positions, ElementsAre(0, 1, 2, 3, 4, 5));
  }
  EXPECT_THAT(error_message([&] { read_sample(dataset, dataset.size()); }), HasSubstr("sample"));
  EXPECT_THAT(error_message([&] { read_sample(dataset, -1); }), HasSubstr("sample -1 asked for"));
}

// Separate documents change positions and first keys, and nothing else.
TEST_F(Batches, DocumentsOfASampleMayBeSeparate) {
  const auto tokens = write({5, 3, 7, 0, 4, 6, 1, 2, 8, 0, 1});
  const GptIndexSpec spec{.sequence_length = 6, .samples = 15, .seed = 3};
  const GptDataset joined(tokens, {0, 11}, spec), separate(tokens, {0, 11}, spec, Documents::separate);
  int64_t begun_inside = 0;
  for (int64_t k = 0; k < separate.size(); ++k) {
    const Sample one = read_sample(joined, k), other = read_sample(separate, k);
    EXPECT_EQ(one.tokens, other.tokens);
    EXPECT_EQ(one.labels, other.labels);
    ASSERT_EQ(other.first_keys.size(), 6U);
    for (size_t t = 0; t < 6; ++t) {
      const bool begins = t == 0 || other.tokens[t] / 100 != other.tokens[t - 1] / 100 || other.tokens[t] % 100 == 0;
      const int32_t expected = begins ? static_cast<int32_t>(t) : other.first_keys[t - 1];
      EXPECT_EQ(other.first_keys[t], expected) << k << " " << t;
      EXPECT_EQ(other.positions[t], static_cast<int32_t>(t) - expected);
      begun_inside += begins && t > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(begun_inside, 20);
}

TEST_F(Batches, APlanNamesTheNearestGlobalBatches) {
  EXPECT_EQ(make_batch_plan(24, 2, 3).accumulation(), 4);
  EXPECT_THAT(error_message([] { return make_batch_plan(25, 4, 3); }), HasSubstr("24 or 36"));
  EXPECT_THAT(error_message([] { return make_batch_plan(5, 4, 2); }), HasSubstr("of 8"));
  EXPECT_THAT(error_message([] { return make_batch_plan(0, 1, 1); }), HasSubstr("at least 1"));
}

// Whatever the layout, a step takes the same samples, each once.
TEST_F(Batches, EveryLayoutReadsTheSameSamplesOfAStep) {
  for (int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    for (int64_t micro_batch : {1, 2, 12}) {
      if (12 % (ranks * micro_batch) != 0) continue;
      const BatchPlan plan = make_batch_plan(12, micro_batch, ranks);
      std::vector<int64_t> ids;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (int64_t m = 0; m < plan.accumulation(); ++m) {
          for (int64_t i = 0; i < micro_batch; ++i) ids.push_back(first_sample(plan, 5'000'000'000, m, rank) + i);
        }
      }
      std::sort(ids.begin(), ids.end());
      ASSERT_EQ(ids.size(), 12U);
      for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], 5'000'000'000 + i);
    }
  }
  const BatchPlan plan = make_batch_plan(12, 2, 3);
  EXPECT_EQ(first_sample(plan, 24, 0, 0), 24);
  EXPECT_EQ(first_sample(plan, 24, 0, 2), 28);
  EXPECT_EQ(first_sample(plan, 24, 1, 0), 30);
}

TEST_F(Batches, ReaderFillsTokensLabelsPositionsAndIds) {
  const auto tokens = write({50, 60, 70});
  const GptDataset dataset(tokens, {0, 3}, {.sequence_length = 4, .samples = 24});
  const BatchPlan plan = make_batch_plan(6, 3, 2);
  TokenBatch batch;
  BatchReader(dataset, plan, 1).read(12, 0, batch);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.sample_ids, ElementsAre(15, 16, 17));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  for (size_t i = 0; i < 3; ++i) {
    const Sample sample = read_sample(dataset, batch.sample_ids[i]);
    for (size_t t = 0; t < 4; ++t) {
      EXPECT_EQ(batch.tokens[4 * i + t], sample.tokens[t]);
      EXPECT_EQ(batch.labels[4 * i + t], sample.labels[t]);
    }
  }
  EXPECT_TRUE(batch.first_keys.empty());
  EXPECT_THAT(error_message([&] { BatchReader(dataset, plan, 2); }), HasSubstr("rank 2: 0 to 1 expected"));
  EXPECT_THAT(error_message([&] { BatchReader(dataset, plan, 0).read(dataset.size(), 0, batch); }),
              HasSubstr("asked for"));
}

}  // namespace
}  // namespace partita::internal
