#include "partita/generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "partita/generate/generator.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

const std::array<float, 5> kLogits = {0.0F, 2.0F, 1.0F, 2.0F, -1.0F};

std::vector<int32_t> tokens(const std::vector<Candidate>& list) {
  std::vector<int32_t> out;
  for (const Candidate& c : list) out.push_back(c.token);
  return out;
}

TEST(Sampling, GreedyTakesTheLowestIdOfEquals) {
  for (double u : {0.0, 0.5, 0.999}) EXPECT_EQ(sample(kLogits, {.temperature = 0}, u), 1);
}

TEST(Sampling, ProbabilitiesAreTheSoftmax) {
  const auto list = candidates(kLogits, {.temperature = 0.5F});
  EXPECT_EQ(tokens(list), (std::vector<int32_t>{1, 3, 2, 0, 4}));
  double sum = 0;
  for (float logit : kLogits) sum += std::exp(logit / 0.5);
  for (const Candidate& c : list)
    EXPECT_NEAR(c.probability, std::exp(kLogits[static_cast<size_t>(c.token)] / 0.5) / sum, 1e-12);
}

TEST(Sampling, TopKAndTopPCut) {
  EXPECT_EQ(tokens(candidates(kLogits, {.top_k = 2})), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(tokens(candidates(kLogits, {.top_k = 99})).size(), 5U);
  // exp: 7.39 7.39 2.72 1 0.37, of 18.87: .39 .78 .93 .98 1
  EXPECT_EQ(tokens(candidates(kLogits, {.top_p = 0.3F})), (std::vector<int32_t>{1}));
  EXPECT_EQ(tokens(candidates(kLogits, {.top_p = 0.78F})), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(tokens(candidates(kLogits, {.top_p = 0.9F})), (std::vector<int32_t>{1, 3, 2}));
  double sum = 0;
  for (const Candidate& c : candidates(kLogits, {.top_k = 4, .top_p = 0.9F})) sum += c.probability;
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Sampling, DrawsInProportion) {
  std::array<int, 5> counts{};
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sample(kLogits, {}, uniform(3, i)))];
  for (const Candidate& c : candidates(kLogits, {}))
    EXPECT_NEAR(counts[static_cast<size_t>(c.token)] / static_cast<double>(draws), c.probability, 0.015);
}

TEST(Sampling, BadInputs) {
  EXPECT_THAT(error_message([] { validate({.temperature = -1}); }), HasSubstr("temperature -1"));
  EXPECT_THAT(error_message([] { validate({.top_k = -2}); }), HasSubstr("top-k -2"));
  EXPECT_THAT(error_message([] { validate({.top_p = 0}); }), HasSubstr("top-p 0"));
  const std::array<float, 2> bad = {0.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(error_message([&] { (void)sample(bad, {}, 0.5); }), HasSubstr("token 1 is nan"));
}

TEST(WholeCharacters, NeverCutsOne) {
  EXPECT_EQ(whole_characters(""), 0U);
  EXPECT_EQ(whole_characters("ab"), 2U);
  EXPECT_EQ(whole_characters("a\xC3"), 1U);
  EXPECT_EQ(whole_characters("a\xC3\xA9"), 3U);
  EXPECT_EQ(whole_characters("\xF0\x9F\xA6"), 0U);
  EXPECT_EQ(whole_characters("\xF0\x9F\xA6\x99"), 4U);
  EXPECT_EQ(whole_characters("a\x80\x80\x80\x80"), 5U);  // no leading byte near: invalid, handed on as it is
}

}  // namespace
}  // namespace partita::internal
