#include "partita/tokenizer/unigram/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "partita/tokenizer/byte_tokens.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Unigram, TakesTheHighestSum) {
  const Unigram unigram({{"<unk>", "a", "b", "ab", "abc", "c"}, {0, -3, -3, -4, -9, -4.5}, 0, false}, "t");
  EXPECT_THAT(unigram.encode("abc"), ElementsAre(3, 5));
  EXPECT_THAT(unigram.encode("ba"), ElementsAre(2, 1));
  EXPECT_THAT(unigram.encode(""), IsEmpty());
  EXPECT_EQ(unigram.bytes_of(4), "abc");
  // Of equals the last piece that begins first.
  const Unigram even({{"<unk>", "a", "aa"}, {0, -1, -2}, 0, false}, "t");
  EXPECT_THAT(even.encode("aaa"), ElementsAre(1, 2));
}

TEST(Unigram, UnknownCharacters) {
  UnigramModel model{{"<unk>", "a", "<s>"}, {0, -1, 0}, 0, false};
  EXPECT_THAT(Unigram(model, "t").encode("éxa中"), ElementsAre(0, 1, 0));
  // Every token is found in text, the unknown one as well.
  EXPECT_THAT(Unigram(model, "t").encode("<s>a<unk>x<unk>"), ElementsAre(2, 1, 0));
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.push_back(byte_token_name(static_cast<unsigned char>(byte)));
    model.scores.push_back(-1);
  }
  model.byte_fallback = true;
  EXPECT_THAT(Unigram(model, "t").encode("éa\n"), ElementsAre(3 + 0xC3, 3 + 0xA9, 1, 3 + 10));
  EXPECT_THAT(Unigram(model, "t").encode("<unk>"), ElementsAre(0));
  model.unk.reset();
  EXPECT_THAT(error_message([&] { (void)Unigram(model, "t").encode("é"); }), HasSubstr("no unk_id"));
}

TEST(Unigram, RefusesBrokenModels) {
  const auto refusal = [](UnigramModel model) {
    return error_message([&] { Unigram unigram(std::move(model), "t"); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("t: model.vocab is empty"));
  EXPECT_THAT(refusal({{"a"}, {}, {}, false}), HasSubstr("0 scores for 1 tokens"));
  EXPECT_THAT(refusal({{"a"}, {NAN}, {}, false}), HasSubstr("score of token 0 (\"a\") is nan"));
  EXPECT_THAT(refusal({{"a"}, {0}, 1, false}), HasSubstr("unk_id is 1"));
  EXPECT_THAT(refusal({{"a", "<0x00>"}, {0, 0}, 0, true}), HasSubstr("1 of the 256 tokens"));
}

// The best sum of all segmentations, found by trying each.
double best_sum(const std::map<std::string, double>& scores, double unknown, const std::vector<std::string>& characters,
                size_t at) {
  if (at == characters.size()) return 0;
  double best = -INFINITY;
  std::string text;
  for (size_t end = at; end < characters.size(); ++end) {
    text += characters[end];
    const auto found = scores.find(text);
    if (found != scores.end()) best = std::max(best, found->second + best_sum(scores, unknown, characters, end + 1));
    if (end == at && found == scores.end())
      best = std::max(best, unknown + best_sum(scores, unknown, characters, end + 1));
  }
  return best;
}

TEST(Unigram, IsTheBestOfAllSegmentations) {
  std::mt19937 draw(2);
  const std::vector<std::string> alphabet = {"a", "b", "é", "中", " "};
  for (int round = 0; round < 200; ++round) {
    UnigramModel model{{"?"}, {-5}, 0, false};
    std::map<std::string, double> scores;
    for (int tries = 0; tries < 25; ++tries) {
      std::string text;
      for (size_t n = 1 + draw() % 4; n > 0; --n) text += alphabet[draw() % alphabet.size()];
      if (scores.contains(text)) continue;
      scores[text] = -static_cast<double>(draw() % 1000) / 100 - 1e-3 * static_cast<double>(tries);
      model.tokens.push_back(text);
      model.scores.push_back(scores[text]);
    }
    const double unknown = *std::min_element(model.scores.begin(), model.scores.end()) - 10;
    const Unigram unigram(model, "t");
    std::vector<std::string> characters;
    std::string text;
    for (size_t n = draw() % 12; n > 0; --n) {
      characters.push_back(alphabet[draw() % alphabet.size()]);
      text += characters.back();
    }
    double sum = 0;
    std::string joined;
    size_t unknowns = 0;
    for (const TokenId id : unigram.encode(text)) {
      sum += id == 0 ? 0 : model.scores[static_cast<size_t>(id)];
      unknowns += id == 0 ? 1 : 0;
      if (id != 0) joined += model.tokens[static_cast<size_t>(id)];
    }
    if (unknowns > 0) continue;  // how many characters they stand for is not in the ids
    EXPECT_EQ(joined, text);
    EXPECT_NEAR(sum, best_sum(scores, unknown, characters, 0), 1e-9) << text;
  }
}

}  // namespace
}  // namespace partita::internal
