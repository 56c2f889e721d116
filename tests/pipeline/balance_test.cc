#include "partita/pipeline/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

std::vector<int> cut(const std::vector<double>& times, int stages) { return balance_stages(times, stages).first; }

TEST(Balance, SmallOnes) {
  EXPECT_THAT(cut({1, 1, 1, 1}, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(cut({1, 2, 3}, 1), ElementsAre(0, 3));
  EXPECT_THAT(cut({5, 1, 2}, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(cut({1, 1, 1, 5}, 2), ElementsAre(0, 3, 4));
  const StageCut model = balance_stages(std::vector{0.0, 1.0, 1.0, 1.0, 1.0, 2.4}, 3);  // embedding, layers, head
  EXPECT_THAT(model.first, ElementsAre(0, 3, 5, 6));
  EXPECT_DOUBLE_EQ(model.slowest, 2.4);
}

TEST(Balance, EarlyStagesTakeFewerBlocksWhereNothingIsLost) {
  EXPECT_THAT(cut(std::vector<double>(8, 1), 3), ElementsAre(0, 2, 5, 8));
  EXPECT_THAT(cut({1, 1, 1, 1, 10}, 3), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(cut({.1, .1, .1}, 2), ElementsAre(0, 1, 3)) << "0.1 + 0.1 + 0.1 - 0.1 is not 0.1 + 0.1";
  EXPECT_THAT(cut({0, 0, 0}, 2), ElementsAre(0, 1, 3));
}

// No layer is lost: 30 layers on 4 stages (Megatron-LM#1304).
TEST(Balance, LayersThatDoNotDivide) { EXPECT_THAT(cut(std::vector<double>(30, 1), 4), ElementsAre(0, 6, 14, 22, 30)); }

// All cuts, in lexicographic order: the first of the best.
StageCut by_trial(const std::vector<double>& times, int stages) {
  const int blocks = static_cast<int>(times.size());
  std::vector<bool> chosen(static_cast<size_t>(blocks - 1));  // a cut after block i
  std::fill(chosen.begin(), chosen.begin() + (stages - 1), true);
  StageCut best{.slowest = std::numeric_limits<double>::infinity()};
  do {
    StageCut trial{.first = {0}};
    for (int b = 1; b < blocks; ++b)
      if (chosen[static_cast<size_t>(b - 1)]) trial.first.push_back(b);
    trial.first.push_back(blocks);
    for (size_t s = 0; s + 1 < trial.first.size(); ++s)
      trial.slowest = std::max(
          trial.slowest, std::accumulate(times.begin() + trial.first[s], times.begin() + trial.first[s + 1], 0.0));
    if (trial.slowest < best.slowest) best = trial;
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return best;
}

TEST(Balance, AsByTrial) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> times(1 + random() % 10);
    for (double& time : times) time = static_cast<double>(random() % 6) / 2;  // sums are exact, ties are many
    for (int stages = 1; stages <= static_cast<int>(times.size()); ++stages) {
      const StageCut expected = by_trial(times, stages), found = balance_stages(times, stages);
      EXPECT_EQ(found.first, expected.first) << testing::PrintToString(times) << " " << stages;
      EXPECT_EQ(found.slowest, expected.slowest);
    }
  }
}

TEST(Balance, Errors) {
  const auto error = [](const std::vector<double>& times, int stages) -> std::string {
    try {
      (void)balance_stages(times, stages);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({1, 1}, 3),
            "cannot cut 2 blocks into 3 stages, each of at least one: use fewer pipeline ranks or stages per rank");
  EXPECT_EQ(error({1, 1}, 0), "cannot cut a model into 0 stages: expected at least 1");
  EXPECT_EQ(error({1, -2}, 1), "block 1 takes -2: expected a time of at least 0");
  EXPECT_EQ(error({NAN}, 1), "block 0 takes nan: expected a time of at least 0");
}

}  // namespace
}  // namespace partita::internal
