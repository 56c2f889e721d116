#include "partita/data/prompt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "partita/data/batch_reader.h"
#include "partita/data/padded_source.h"
#include "tests/data/sample.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Lengths {
  int64_t prompt, completion;
};

// Token t of example i is 100 (i + 1) + t: none is that of padding.
std::shared_ptr<const PromptExamples> make_examples(const std::vector<Lengths>& lengths) {
  PromptExamples examples{.file = "a.jsonl"};
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t count = lengths[i].prompt + lengths[i].completion;
    for (int64_t t = 0; t < count; ++t)
      examples.ids.push_back(static_cast<TokenId>(100 * (i + 1)) + static_cast<TokenId>(t));
    examples.begins.push_back(static_cast<int64_t>(examples.ids.size()));
    examples.prompt_tokens.push_back(lengths[i].prompt);
  }
  return std::make_shared<const PromptExamples>(std::move(examples));
}

PromptDataset dataset(const std::vector<Lengths>& lengths, const PromptDatasetSpec& spec) {
  return {make_examples(lengths), {0, static_cast<int64_t>(lengths.size())}, spec};
}

std::string refusal(const std::vector<Lengths>& lengths, const PromptDatasetSpec& spec) {
  return error_message([&] { (void)dataset(lengths, spec); });
}

TEST(PromptDataset, OnlyCompletionsCountAndPaddingIsByPosition) {
  const auto d = dataset({{2, 3}, {0, 2}, {3, 4}}, {.sequence_length = 6, .shuffled = false});
  ASSERT_EQ(d.size(), 3);
  EXPECT_EQ(d.documents(), Documents::joined);
  const Sample first = read_sample(d, 0);
  EXPECT_THAT(first.tokens, ElementsAre(100, 101, 102, 103, 0, 0));
  EXPECT_THAT(first.labels, ElementsAre(-1, 102, 103, 104, -1, -1));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read_sample(d, 1).labels, ElementsAre(201, -1, -1, -1, -1, -1));
  const Sample full = read_sample(d, 2);  // 7 tokens: 6 inputs
  EXPECT_THAT(full.tokens, ElementsAre(300, 301, 302, 303, 304, 305));
  EXPECT_THAT(full.labels, ElementsAre(-1, -1, 303, 304, 305, 306));
  EXPECT_EQ(d.summary().counted, 3 + 1 + 4);
  EXPECT_EQ(d.summary().tokens, 4 + 1 + 6);
  EXPECT_EQ(describe(d.summary()), "3 examples in 3 samples of 6 tokens, 38.9% of them padding; 8 tokens count");
}

// A token that is used as padding, and one that ends documents, are learnt inside a completion.
TEST(PromptDataset, TheTokenOfPaddingCounts) {
  PromptExamples examples{.file = "a", .ids = {5, 0, 0, 9, 0}, .begins = {0, 5}, .prompt_tokens = {1}};
  const PromptDataset d(std::make_shared<const PromptExamples>(examples), {0, 1}, {.sequence_length = 6});
  EXPECT_THAT(read_sample(d, 0).labels, ElementsAre(0, 0, 9, 0, -1, -1));
}

TEST(PromptDataset, WhatIsTooLong) {
  const std::vector<Lengths> lengths = {{2, 3}, {2, 7}, {6, 2}, {7, 1}};
  PromptDatasetSpec spec{.sequence_length = 5, .shuffled = false};
  EXPECT_THAT(refusal(lengths, spec), HasSubstr("a.jsonl: example 2 has 9 tokens, 6 fit"));
  spec.too_long = TooLong::cut;
  const auto cut = dataset(lengths, spec);
  ASSERT_EQ(cut.size(), 2);
  EXPECT_THAT(read_sample(cut, 1).tokens, ElementsAre(200, 201, 202, 203, 204));
  EXPECT_THAT(read_sample(cut, 1).labels, ElementsAre(-1, 202, 203, 204, 205));
  EXPECT_EQ(cut.summary().cut, 1);
  EXPECT_EQ(cut.summary().skipped, 2);  // nothing of the completion is left
  EXPECT_THAT(describe(cut.summary()), HasSubstr("7 tokens count; 1 examples were cut; 2 too long were left out"));
  spec.too_long = TooLong::skip;
  EXPECT_EQ(dataset(lengths, spec).summary().examples, 1);
  EXPECT_EQ(dataset(lengths, spec).summary().skipped, 3);
  EXPECT_THAT(refusal({{9, 9}}, spec), HasSubstr("none of 1 examples fits into 5 tokens"));
  EXPECT_THAT(refusal({}, spec), HasSubstr("none of 0 examples"));
  EXPECT_THAT(refusal({{1, 1}}, {.sequence_length = 0}), HasSubstr("sequence length 0"));
}

TEST(PromptDataset, EpochsHaveAllSamplesInOrdersOfTheirOwn) {
  const std::vector<Lengths> lengths(11, {1, 1});
  const PromptDatasetSpec spec{.sequence_length = 3, .samples = 25, .seed = 7};
  const auto d = dataset(lengths, spec);
  ASSERT_EQ(d.size(), 33);
  std::vector<std::vector<int32_t>> epochs(3);
  for (int64_t k = 0; k < d.size(); ++k) epochs[static_cast<size_t>(k / 11)].push_back(read_sample(d, k).tokens[0]);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  // A longer run begins like a shorter one: what a resumed run needs.
  auto longer = spec;
  longer.samples = 200;
  const auto more = dataset(lengths, longer);
  for (int64_t k = 0; k < d.size(); ++k) EXPECT_EQ(read_sample(d, k), read_sample(more, k));
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_THAT(epoch, ElementsAre(100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100));
  }
}

// Every sample read back: each example stands in one place, whole, with its own labels.
TEST(PromptDataset, PackedExamplesAreWholeAndOnce) {
  std::mt19937 random(4);
  for (const Documents documents : {Documents::separate, Documents::joined}) {
    for (const int64_t length : {13, 20, 64}) {
      std::vector<Lengths> lengths;
      for (int i = 0; i < 50; ++i)
        lengths.push_back({1 + static_cast<int64_t>(random() % 5), 1 + static_cast<int64_t>(random() % 9)});
      const auto d = dataset(lengths, {.sequence_length = length, .seed = 3, .packed = true, .documents = documents});
      EXPECT_EQ(d.documents(), documents);
      EXPECT_LT(d.size(), 50);
      std::set<int32_t> seen;
      int64_t counted = 0;
      for (int64_t k = 0; k < d.size(); ++k) {
        const Sample s = read_sample(d, k);
        size_t begin = 0;
        while (begin < s.tokens.size() && s.tokens[begin] != 0) {
          const int32_t first = s.tokens[begin];
          ASSERT_TRUE(seen.insert(first).second);
          const auto [prompt, completion] = lengths[static_cast<size_t>(first / 100 - 1)];
          const int64_t whole = prompt + completion;
          const int64_t slots = documents == Documents::joined ? std::min(whole, length) : whole - 1;
          for (int64_t t = 0; t < slots; ++t) {
            const size_t at = begin + static_cast<size_t>(t);
            ASSERT_LT(at, s.tokens.size());
            EXPECT_EQ(s.tokens[at], first + t);
            const bool counts = t + 1 >= prompt && t + 1 < whole;
            EXPECT_EQ(s.labels[at], counts ? first + t + 1 : -1);
            counted += counts ? 1 : 0;
            EXPECT_EQ(s.positions[at],
                      static_cast<int32_t>(documents == Documents::separate ? t : static_cast<int64_t>(at)));
            if (documents == Documents::separate) {
              EXPECT_EQ(s.first_keys[at], static_cast<int32_t>(begin));
            }
          }
          begin += static_cast<size_t>(slots);
        }
        for (size_t t = begin; t < s.tokens.size(); ++t) {
          EXPECT_EQ(s.tokens[t], 0);
          EXPECT_EQ(s.labels[t], -1);
          if (documents == Documents::separate) {
            EXPECT_EQ(s.first_keys[t], static_cast<int32_t>(t));
          }
        }
      }
      EXPECT_EQ(seen.size(), 50U);
      EXPECT_EQ(counted, d.summary().counted);
    }
  }
}

TEST(PromptDataset, ReadersTakeSeparateDocuments) {
  const auto d = dataset({{1, 2}, {1, 2}, {1, 2}}, {.sequence_length = 5, .packed = true});
  ASSERT_EQ(d.size(), 2);
  EXPECT_EQ(PaddedSource(d, 1, 1).size(), 1);
  EXPECT_EQ(PaddedSource(d, 9, 2).size(), 2);
  const PaddedSource padded(d, 2, 4);
  EXPECT_EQ(padded.size(), 4);
  TokenBatch batch;
  BatchReader(padded, make_batch_plan(4, 4, 1), 0).read(0, 0, batch);
  ASSERT_EQ(batch.first_keys.size(), 20U);
  for (size_t sample = 0; sample < 2; ++sample) {
    const Sample s = read_sample(d, static_cast<int64_t>(sample));
    for (size_t t = 0; t < 5; ++t) {
      EXPECT_EQ(batch.tokens[5 * sample + t], s.tokens[t]);
      EXPECT_EQ(batch.first_keys[5 * sample + t], s.first_keys[t]);
      EXPECT_EQ(batch.positions[5 * sample + t], s.positions[t]);
    }
  }
  for (size_t i = 10; i < 20; ++i) {
    EXPECT_EQ(batch.labels[i], kIgnoredLabel);
    EXPECT_EQ(batch.first_keys[i], static_cast<int32_t>(i % 5));
  }
  EXPECT_THAT(error_message([&] { read_sample(padded, 4); }), HasSubstr("sample 4 asked for, there are 4"));
}

}  // namespace
}  // namespace partita::internal
