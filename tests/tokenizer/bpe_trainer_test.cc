#include "partita/tokenizer/bpe/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "partita/base/file.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "partita/tokenizer/split/gpt2_split.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGolden = PARTITA_SOURCE_DIR "/tests/golden/";

BpeModel train(std::string_view text, const BpeTrainerOptions& options, int threads = 1) {
  PretokenCounter counter(threads);
  counter.add(text);
  return train_bpe(counter.counts(), options);
}

// The definition: count all pairs anew before each merge.
BpeModel train_naively(std::string_view text, int64_t vocab_size, int64_t min_frequency) {
  BpeModel model;
  std::array<TokenId, 256> id_of{};
  for (uint8_t byte : byte_level_alphabet()) {
    id_of[byte] = static_cast<TokenId>(model.tokens.size());
    model.tokens.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<std::vector<TokenId>> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_pretoken_end(text, begin);
    words.emplace_back();
    for (size_t i = begin; i < end; ++i) words.back().push_back(id_of[static_cast<unsigned char>(text[i])]);
    begin = end;
  }
  while (model.vocab_size() < vocab_size) {
    std::map<std::pair<TokenId, TokenId>, int64_t> counts;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    std::pair<TokenId, TokenId> best;
    int64_t most = 0;
    for (const auto& [pair, count] : counts) {
      if (count > most) std::tie(best, most) = std::pair(pair, count);
    }
    if (most < min_frequency) break;
    const std::string joined =
        model.tokens[static_cast<size_t>(best.first)] + model.tokens[static_cast<size_t>(best.second)];
    const auto known = std::find(model.tokens.begin(), model.tokens.end(), joined);
    const auto result = static_cast<TokenId>(known - model.tokens.begin());
    if (known == model.tokens.end()) model.tokens.push_back(joined);
    model.merges.push_back({best.first, best.second, result});
    for (auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != best.first || word[i + 1] != best.second) continue;
        word[i] = result;
        word.erase(word.begin() + static_cast<int64_t>(i) + 1);
      }
    }
  }
  return model;
}

TEST(BpeTrainer, LearnsThePairsOfASmallText) {
  const BpeModel model = train("low low low lower lowest", {.vocab_size = 261, .min_frequency = 2});
  // l,o comes 5 times, as o,w; ids order ties: 'l' < 'o'. Then lo,w. Then the space before "low", 4 times.
  std::vector<std::string> learnt(model.tokens.begin() + 256, model.tokens.end());
  EXPECT_THAT(learnt, ElementsAre("lo", "low", " low", " lowe", "<|endoftext|>"));
  EXPECT_THAT(model.special, ElementsAre(260));
}

TEST(BpeTrainer, LearnsWhatTheReferenceImplementationLearns) {
  const BpeModel reference = load_tokenizer_json(kGolden + "tokenizer.json");
  const BpeModel model = train(read_file(kGolden + "tokenizer_corpus.txt"), {.vocab_size = 700, .min_frequency = 2});
  EXPECT_EQ(model.tokens, reference.tokens);
  EXPECT_EQ(model.merges, reference.merges);
  EXPECT_EQ(model.special, reference.special);
}

TEST(BpeTrainer, MatchesTheDefinitionOnRandomTexts) {
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    std::string text;
    const auto letters = 1 + random() % 4;
    for (auto n = 1 + random() % 600; n > 0; --n)
      text += random() % 5 == 0 ? ' ' : static_cast<char>('a' + random() % letters);
    const auto frequency = static_cast<int64_t>(1 + random() % 3);
    const BpeModel expected = train_naively(text, 320, frequency);
    const BpeModel model = train(text, {.vocab_size = 320, .min_frequency = frequency, .special_tokens = {}});
    ASSERT_EQ(model.tokens, expected.tokens) << text;
    ASSERT_EQ(model.merges, expected.merges) << text;
  }
}

TEST(BpeTrainer, TheNumberOfThreadsChangesNothing) {
  std::mt19937 random(7);
  std::string text;  // longer than the pieces that threads take
  while (text.size() < 5'000'000) {
    for (auto n = 1 + random() % 8; n > 0; --n) text += static_cast<char>('a' + random() % 6);
    text += random() % 10 == 0 ? "\n\n" : " ";
  }
  PretokenCounter one(1), four(4);
  one.add(text);
  four.add(text);
  const auto expected = one.counts(), counts = four.counts();
  ASSERT_EQ(counts.size(), expected.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    ASSERT_EQ(counts[i].pretoken, expected[i].pretoken);
    ASSERT_EQ(counts[i].count, expected[i].count);
  }
}

TEST(BpeTrainer, StopsWhereNothingIsFrequentAndReportsProgress) {
  int64_t learnt = -1, wanted = -1;
  PretokenCounter counter(2);
  counter.add("abab cd");
  const BpeModel model =
      train_bpe(counter.counts(), {.vocab_size = 1000, .min_frequency = 2}, [&](int64_t a, int64_t b) {
        learnt = a;
        wanted = b;
      });
  EXPECT_EQ(model.merges.size(), 1U);  // a,b
  EXPECT_EQ(model.vocab_size(), 258);
  EXPECT_EQ(learnt, 1);
  EXPECT_EQ(wanted, 743);
}

TEST(BpeTrainer, NamesWhatIsWrong) {
  EXPECT_THAT(error_message([] { return train("abc", {.vocab_size = 256}); }), HasSubstr("use at least 257"));
  EXPECT_THAT(error_message([] { return train("", {.vocab_size = 300}); }), HasSubstr("no text to train"));
}

}  // namespace
}  // namespace partita::internal
