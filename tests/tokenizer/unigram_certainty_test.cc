#include "partita/tokenizer/unigram/unigram_certainty.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace partita::internal {
namespace {

struct Model {
  std::vector<std::string> texts;
  std::vector<UnigramLattice<float>::ScoredPiece> pieces;
};

// Scores of a few steps, so that sums come close to each other or meet.
Model random_model(std::mt19937& draw, double step) {
  Model model;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (size_t n = 1 + draw() % 4; n > 0; --n) text += static_cast<char>('a' + draw() % 3);
    if (std::find(model.texts.begin(), model.texts.end(), text) == model.texts.end()) model.texts.push_back(text);
  }
  for (size_t i = 0; i < model.texts.size(); ++i) {
    model.pieces.push_back(
        {model.texts[i], static_cast<TokenId>(i), static_cast<float>(-step * static_cast<double>(draw() % 97))});
  }
  return model;
}

bool same(std::span<const UnigramPiece> a, std::span<const UnigramPiece> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const UnigramPiece& x, const UnigramPiece& y) {
    return x.begin == y.begin && x.end == y.end && x.id == y.id;
  });
}

// Below most_sum the pieces are what floats find from that sum on; above, they often are not.
TEST(UnigramCertainty, HoldsUpToTheSumThatItStates) {
  std::mt19937 draw(6);
  int64_t certain_cases = 0, rounded_away = 0;
  for (int round = 0; round < 150; ++round) {
    const Model model = random_model(draw, round % 2 == 0 ? 0.0107 : 0.13);
    const UnigramLattice<float> lattice(model.pieces, -30, 100000);
    UnigramCertainty certainty;
    UnigramLattice<float>::Walk walk;
    for (int i = 0; i < 60; ++i) {
      std::string unit;
      for (size_t n = 1 + draw() % 14; n > 0; --n) unit += static_cast<char>('a' + draw() % 3);
      const auto certain = certainty.segment(lattice, unit);
      ASSERT_GE(certain.most_sum, 0);
      ASSERT_LT(certain.most_sum, 100000);
      for (const float factor : {0.0F, 0.3F, 0.99F, 0.99999F}) {
        const float sum = -factor * certain.most_sum;
        if (!(std::abs(sum) < certain.most_sum)) continue;
        walk.set_sum(sum);
        ASSERT_TRUE(same(certain.pieces, lattice.segment(unit, walk))) << unit << " from " << sum;
        float added = sum;
        for (const UnigramPiece& piece : certain.pieces) {
          added = (piece.id < 0 ? -30 : model.pieces[static_cast<size_t>(piece.id)].score) + added;
        }
        ASSERT_EQ(added, walk.sum());
        ++certain_cases;
      }
      walk.set_sum(-99000);
      rounded_away += same(certain.pieces, lattice.segment(unit, walk)) ? 0 : 1;
    }
  }
  EXPECT_GT(certain_cases, 10000);
  EXPECT_GT(rounded_away, 10);  // the bound is needed
}

// Sums begin again at zero beyond the stated magnitude, at the next place where a piece begins.
TEST(UnigramLattice, SumsBeginAgain) {
  const std::vector<UnigramLattice<float>::ScoredPiece> pieces = {{"a", 0, -4}, {"b", 1, 5}};
  UnigramLattice<float>::Walk walk;
  EXPECT_EQ(UnigramLattice<float>(pieces, -12, 1000).segment("aaaaaa", walk).size(), 6);
  EXPECT_EQ(walk.sum(), -24);
  const UnigramLattice<float> lattice(pieces, -12, 10);
  walk.begin_text();
  EXPECT_EQ(lattice.segment("aaaaaa", walk).size(), 6);
  EXPECT_EQ(walk.sum(), -12);  // -4, -8, -12 and, from 0, the same again
  EXPECT_EQ(lattice.segment("a", walk).size(), 1);
  EXPECT_EQ(walk.sum(), -4);
  walk.begin_text();
  EXPECT_EQ(lattice.segment("bbbb", walk).size(), 4);
  EXPECT_EQ(walk.sum(), 5);  // 15 is beyond as well
}

TEST(UnigramCertainty, EqualsAreNeverCertain) {
  const std::vector<UnigramLattice<float>::ScoredPiece> pieces = {{"a", 0, -1}, {"aa", 1, -2}, {"b", 2, -1}};
  const UnigramLattice<float> lattice(pieces, -12, 100000);
  UnigramCertainty certainty;
  EXPECT_EQ(certainty.segment(lattice, "aaa").most_sum, 0);
  EXPECT_GT(certainty.segment(lattice, "bab").most_sum, 90000);
}

}  // namespace
}  // namespace partita::internal
