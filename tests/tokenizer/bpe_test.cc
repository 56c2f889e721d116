#include "partita/tokenizer/bpe/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "partita/base/file.h"
#include "partita/tokenizer/bpe/bpe_merger.h"
#include "partita/tokenizer/bpe/bpe_trainer.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "partita/tokenizer/split/gpt2_split.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kGolden = PARTITA_SOURCE_DIR "/tests/golden/";

// The definition, read literally: as long as a pair of neighbours merges, merge the one of lowest rank, the leftmost.
std::vector<TokenId> encode_naively(const BpeModel& model, std::string_view text) {
  const auto ids_of = token_ids(model);
  std::vector<TokenId> ids;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_pretoken_end(text, begin);
    std::vector<TokenId> piece;
    for (size_t i = begin; i < end; ++i) piece.push_back(ids_of.at(text.substr(i, 1)));
    for (bool merged = true; merged;) {
      merged = false;
      for (const BpeMerge& merge : model.merges) {
        for (size_t i = 0; i + 1 < piece.size() && !merged; ++i) {
          if (piece[i] != merge.left || piece[i + 1] != merge.right) continue;
          piece[i] = merge.result;
          piece.erase(piece.begin() + static_cast<int64_t>(i) + 1);
          merged = true;
        }
        if (merged) break;
      }
    }
    ids.insert(ids.end(), piece.begin(), piece.end());
    begin = end;
  }
  return ids;
}

BpeModel bytes_only() {
  BpeModel model;
  for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
  return model;
}

TokenId add(BpeModel& model, TokenId left, TokenId right) {
  model.tokens.push_back(model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)]);
  const auto id = static_cast<TokenId>(model.tokens.size() - 1);
  model.merges.push_back({left, right, id});
  return id;
}

TEST(Bpe, LowestRankThenLeftmost) {
  BpeModel model = bytes_only();
  const TokenId bc = add(model, 'b', 'c'), ab = add(model, 'a', 'b'), aa = add(model, 'a', 'a');
  const ByteLevelBpe tokenizer(model);
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', bc));  // rank 0 before rank 1, which stands further left
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(ab, ab));
  EXPECT_THAT(tokenizer.encode("aaa"), ElementsAre(aa, 'a'));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST(Bpe, ARankBelowThoseOfItsPartsIsFoundWhenTheyExist) {
  BpeModel model = bytes_only();
  model.tokens.insert(model.tokens.end(), {"ab", "cd", "abcd"});
  model.merges = {{256, 257, 258}, {'a', 'b', 256}, {'c', 'd', 257}};  // the last merge to be possible comes first
  EXPECT_THAT(ByteLevelBpe(model).encode("abcdab"), ElementsAre(258, 256));
}

TEST(Bpe, MatchesTheGoldenIds) {
  const ByteLevelBpe tokenizer(load_tokenizer_json(kGolden + "tokenizer.json"));
  EXPECT_EQ(tokenizer.vocab_size(), 700);
  EXPECT_EQ(tokenizer.end_of_document(), 699);
  const auto cases = nlohmann::json::parse(read_file(kGolden + "tokenizer_cases.json"));
  ASSERT_GT(cases.size(), 300U);
  const auto encoder = tokenizer.make_encoder();
  for (int pass = 0; pass < 2; ++pass) {  // the second from the encoder's memory
    for (const auto& item : cases) {
      const auto text = item["text"].get<std::string>();
      std::vector<TokenId> ids;
      encoder->encode(text, ids);
      EXPECT_EQ(ids, item["ids"].get<std::vector<TokenId>>()) << item["text"];
      EXPECT_EQ(tokenizer.decode(ids), text);
    }
  }
}

TEST(Bpe, MatchesTheDefinitionOnRandomVocabulariesAndTexts) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    BpeModel model = bytes_only();
    const std::string_view letters = "abc ";
    std::vector<TokenId> known(letters.begin(), letters.end());
    for (int i = 0; i < 30; ++i) {
      const TokenId left = known[random() % known.size()], right = known[random() % known.size()];
      const std::string joined = model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
      if (joined.size() > 12 || token_ids(model).contains(joined)) continue;
      known.push_back(add(model, left, right));
    }
    std::shuffle(model.merges.begin(), model.merges.end(), random);  // ranks in no sensible order
    const ByteLevelBpe tokenizer(model);
    for (int text = 0; text < 20; ++text) {
      std::string sample;
      for (auto n = random() % 60; n > 0; --n) sample += letters[random() % letters.size()];
      ASSERT_EQ(tokenizer.encode(sample), encode_naively(model, sample)) << sample;
    }
  }
}

// Pretokens of all lengths, from one to many ids each, again and again: from all levels of its memory.
TEST(Bpe, AnEncoderGivesWhatMergingEachPretokenGives) {
  const BpeModel model = load_tokenizer_json(kGolden + "tokenizer.json");
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::o200k}) {
    for (const bool ignore_merges : {false, true}) {
      const ByteLevelBpe tokenizer(model, "t.json", {pattern, ignore_merges});
      const auto encoder = tokenizer.make_encoder();
      BpeMerger merger(tokenizer.merges());
      std::mt19937 random(11);
      std::vector<std::string> words;
      for (int i = 0; i < 3000; ++i) {
        std::string word = i % 3 == 0 ? "" : " ";
        const auto letters = 1 + random() % (i % 50 == 0 ? 300 : i % 5 == 0 ? 20 : 7);
        for (size_t n = 0; n < letters; ++n) word += "etaoinshr0'.\n\x80"[random() % 14];
        words.push_back(word);
      }
      for (int round = 0; round < 3; ++round) {
        std::string text;
        for (int i = 0; i < 5000; ++i) text += words[random() % words.size()];
        std::vector<TokenId> ids, expected;
        encoder->encode(text, ids);
        for (size_t begin = 0; begin < text.size();) {
          const size_t end = pretoken_end(pattern, text, begin);
          const std::string_view pretoken = std::string_view(text).substr(begin, end - begin);
          const auto whole = ignore_merges ? tokenizer.find(pretoken) : std::nullopt;
          if (whole) expected.push_back(*whole);
          if (!whole) merger.merge(pretoken, expected);
          begin = end;
        }
        ASSERT_EQ(ids, expected);
      }
    }
  }
}

TEST(Bpe, AnyBytesRoundTrip) {
  const ByteLevelBpe tokenizer(load_tokenizer_json(kGolden + "tokenizer.json"));
  const auto encoder = tokenizer.make_encoder();
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 100, '\0');
    for (char& c : text) c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    std::vector<TokenId> ids;
    encoder->encode(text, ids);
    ASSERT_EQ(tokenizer.decode(ids), text);
    for (TokenId id : ids) ASSERT_NE(id, 699);
  }
}

TEST(Bpe, TheEncoderForgetsAndStillEncodesTheSame) {
  const ByteLevelBpe tokenizer(load_tokenizer_json(kGolden + "tokenizer.json"));
  const auto encoder = tokenizer.make_encoder();
  std::vector<TokenId> first, ids;
  encoder->encode("copyright", first);
  for (int i = 0; i < 300'000; ++i) {  // more distinct pretokens than it remembers
    ids.clear();
    encoder->encode("w" + std::to_string(i) + "x", ids);
  }
  std::vector<TokenId> again;
  encoder->encode("copyright", again);
  EXPECT_EQ(again, first);
}

TEST(Bpe, AMillionEqualCharactersTakeAboutLinearTime) {
  BpeModel model = bytes_only();
  for (TokenId id = 'a', n = 0; n < 6; ++n) id = add(model, id, id);  // up to 64 characters
  const ByteLevelBpe tokenizer(model);
  const auto seconds = [&](size_t count) {
    const std::string text(count, 'a');
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer.encode(text), std::vector<TokenId>(count / 64, 261));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double small = std::min({seconds(64'000), seconds(64'000), seconds(64'000)});
  // 16 times as long: quadratic would take 256 times as long.
  EXPECT_LT(seconds(1'024'000), 80 * small + 0.5);
}

TEST(Bpe, NamesWhatIsWrongWithAModel) {
  BpeModel model = bytes_only();
  model.tokens.pop_back();  // 0xFF is in no UTF-8
  EXPECT_NO_THROW(validate(model, "t.json"));
  model.tokens[0xEF].clear();
  EXPECT_THAT(error_message([&] { validate(model, "t.json"); }), HasSubstr("t.json: no token for byte 0xEF (\"ï\")"));
  model = bytes_only();
  model.merges.push_back({'a', 'b', 300});
  EXPECT_THAT(error_message([&] { validate(model, "t.json"); }), HasSubstr("merge 0 (97, 98) -> 300 is outside"));
  model.merges = {{'a', 'b', 'c'}};
  EXPECT_THAT(error_message([&] { validate(model, "t.json"); }), HasSubstr("merge 0 makes \"c\" of \"a\" and \"b\""));
  model = bytes_only();
  model.tokens.emplace_back("a");
  EXPECT_THAT(error_message([&] { validate(model, "t.json"); }), HasSubstr("tokens 97 and 256 are both \"a\""));
  model = bytes_only();
  model.special = {256};
  EXPECT_THAT(error_message([&] { validate(model, "t.json"); }), HasSubstr("special token 256 is outside 0..255"));
  const ByteLevelBpe tokenizer(bytes_only());
  EXPECT_THAT(error_message([&] {
                return tokenizer.decode(std::vector<TokenId>{5, 256});
              }),
              HasSubstr("token 256 is outside the vocabulary 0..255"));
  EXPECT_EQ(tokenizer.end_of_document(), std::nullopt);
}

}  // namespace
}  // namespace partita::internal
