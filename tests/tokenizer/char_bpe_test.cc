#include "partita/tokenizer/bpe/char_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "partita/tokenizer/byte_tokens.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

BpeModel model_of(std::vector<std::string> tokens, std::initializer_list<std::pair<std::string, std::string>> merges) {
  BpeModel model;
  model.tokens = std::move(tokens);
  const auto id = [&](const std::string& text) {
    return static_cast<TokenId>(std::find(model.tokens.begin(), model.tokens.end(), text) - model.tokens.begin());
  };
  for (const auto& [left, right] : merges) model.merges.push_back({id(left), id(right), id(left + right)});
  return model;
}

TEST(CharBpe, MergesAcrossTheWholeText) {
  const CharBpe bpe(model_of({"<unk>", "▁", "a", "b", "ab", "▁ab", "b▁"}, {{"a", "b"}, {"▁", "ab"}, {"b", "▁"}}), "t",
                    {.unk = 0});
  EXPECT_THAT(bpe.encode("▁ab▁ab"), ElementsAre(5, 5));
  EXPECT_THAT(bpe.encode("bb▁a"), ElementsAre(3, 6, 2));
  EXPECT_THAT(bpe.encode(""), IsEmpty());
  EXPECT_EQ(bpe.bytes_of(5), "▁ab");
}

TEST(CharBpe, UnknownCharacters) {
  const BpeModel model = model_of({"<unk>", "a", "aa"}, {{"a", "a"}});
  const std::string text = "éaxyaa中";
  EXPECT_THAT(CharBpe(model, "t").encode(text), ElementsAre(2, 1));  // dropped characters leave no gap
  EXPECT_THAT(CharBpe(model, "t", {.unk = 0}).encode(text), ElementsAre(0, 1, 0, 0, 2, 0));
  EXPECT_THAT(CharBpe(model, "t", {.fuse_unk = true, .unk = 0}).encode(text), ElementsAre(0, 1, 0, 2, 0));
  // Also where words are cut, and each time anew.
  const CharBpe fused(model, "t", {.fuse_unk = true, .unk = 0});
  const auto encoder = fused.make_encoder();
  for (int i = 0; i < 3; ++i) {
    std::vector<TokenId> ids = {0};
    encoder->encode(std::string(200, 'x') + "a" + std::string(3, 'y'), ids);
    EXPECT_THAT(ids, ElementsAre(0, 0, 1, 0));
  }
}

BpeModel with_bytes(BpeModel model) {
  for (int byte = 0; byte < 256; ++byte) model.tokens.push_back(byte_token_name(static_cast<unsigned char>(byte)));
  return model;
}

TEST(CharBpe, BytesForUnknownCharacters) {
  const BpeModel model = with_bytes(model_of({"?", "a", "aa"}, {{"a", "a"}}));
  const CharBpe bpe(model, "t", {.byte_fallback = true, .fuse_unk = true, .unk = 0});
  EXPECT_THAT(bpe.encode("éaa\n"), ElementsAre(3 + 0xC3, 3 + 0xA9, 2, 3 + 10));
  EXPECT_THAT(bpe.encode("\xFF\xE4"), ElementsAre(3 + 0xFF, 3 + 0xE4));
  // Without any byte token it is off.
  EXPECT_THAT(CharBpe(model_of({"?", "a"}, {}), "t", {.byte_fallback = true, .unk = 0}).encode("xa"),
              ElementsAre(0, 1));
}

TEST(CharBpe, IgnoreMergesIsAboutWholeTexts) {
  const BpeModel model = model_of({"a", "b", "ab", "aba"}, {{"a", "b"}});
  EXPECT_THAT(CharBpe(model, "t").encode("aba"), ElementsAre(2, 0));
  EXPECT_THAT(CharBpe(model, "t", {.ignore_merges = true}).encode("aba"), ElementsAre(3));
  EXPECT_THAT(CharBpe(model, "t", {.ignore_merges = true}).encode("abaa"), ElementsAre(2, 0, 0));
}

TEST(CharBpe, RefusesBrokenModels) {
  const auto refusal = [](BpeModel model, CharBpeOptions options = {}) {
    return error_message([&] { CharBpe bpe(std::move(model), "t", options); });
  };
  BpeModel model = model_of({"a", "b", "ab"}, {{"a", "b"}});
  model.merges[0].result = 3;
  EXPECT_THAT(refusal(model), HasSubstr("t: merge 0 has token 3, outside the vocabulary 0..2"));
  model.merges[0].result = 1;
  EXPECT_THAT(refusal(model), HasSubstr("merge 0 of \"a\" and \"b\" makes \"b\""));
  EXPECT_THAT(refusal(model_of({"a", "a"}, {})), HasSubstr("tokens 0 and 1 are both \"a\""));
  EXPECT_THAT(refusal(model_of({"a"}, {}), {.unk = 1}), HasSubstr("unk is token 1"));
  // "?é" is [0, 0] in the reference, "éé" is [0].
  EXPECT_THAT(refusal(model_of({"?", "a"}, {}), {.fuse_unk = true, .unk = 0}),
              HasSubstr("t: fuse_unk with the unk token \"?\", which a text may spell, is not supported"));
  EXPECT_THAT(refusal(model_of({"a", "<0x41>"}, {}), {.byte_fallback = true}), HasSubstr("1 of the 256 tokens"));
  EXPECT_THAT(refusal(model_of({"u", "a", "ua"}, {{"u", "a"}}), {.unk = 0}),
              HasSubstr("token \"u\" of unknown characters"));
  const CharBpe bpe(model_of({"a"}, {}), "t");
  EXPECT_THAT(error_message([&] { (void)bpe.bytes_of(1); }), HasSubstr("outside the vocabulary"));
}

// The definition, word by word.
std::vector<TokenId> merged_slowly(const BpeModel& model, const std::vector<std::string>& characters, TokenId unk) {
  std::map<std::string, TokenId> id_of;
  for (size_t id = 0; id < model.tokens.size(); ++id) id_of[model.tokens[id]] = static_cast<TokenId>(id);
  std::vector<TokenId> ids;
  for (const std::string& c : characters) ids.push_back(id_of.contains(c) ? id_of[c] : unk);
  for (;;) {
    size_t best = SIZE_MAX, best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      for (size_t rank = 0; rank < model.merges.size() && rank < best; ++rank) {
        if (model.merges[rank].left == ids[at] && model.merges[rank].right == ids[at + 1]) best = rank, best_at = at;
      }
    }
    if (best == SIZE_MAX) return ids;
    ids[best_at] = model.merges[best].result;
    ids.erase(ids.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

TEST(CharBpe, IsTheDefinitionOnRandomModels) {
  std::mt19937 draw(11);
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", "é", "中", "▁", "🦙"};
  for (int round = 0; round < 60; ++round) {
    BpeModel model;
    model.tokens = {"?"};
    const size_t known = 2 + draw() % (alphabet.size() - 1);
    for (size_t c = 0; c < known; ++c) model.tokens.push_back(alphabet[c]);
    for (int tries = 0; tries < 60; ++tries) {  // merges whose parts come first, and by chance ranks out of order
      const auto left = static_cast<TokenId>(1 + draw() % (model.tokens.size() - 1));
      const auto right = static_cast<TokenId>(1 + draw() % (model.tokens.size() - 1));
      const std::string text = model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
      const auto found = std::find(model.tokens.begin(), model.tokens.end(), text);
      if (text.size() > 20) continue;
      const auto is_known = [&](const BpeMerge& m) { return m.left == left && m.right == right; };
      if (std::any_of(model.merges.begin(), model.merges.end(), is_known)) continue;
      const auto result = static_cast<TokenId>(found - model.tokens.begin());
      if (found == model.tokens.end()) model.tokens.push_back(text);
      model.merges.push_back({left, right, result});
    }
    std::shuffle(model.merges.begin(), model.merges.end(), draw);
    const CharBpe bpe(model, "t", {.unk = 0});
    const auto encoder = bpe.make_encoder();
    for (int i = 0; i < 40; ++i) {
      const size_t size = i % 8 == 0 ? draw() % 300 : draw() % 25;
      std::vector<std::string> characters;
      std::string text;
      for (size_t c = 0; c < size; ++c) {
        characters.push_back(alphabet[draw() % alphabet.size()]);
        text += characters.back();
      }
      std::vector<TokenId> ids;
      encoder->encode(text, ids);
      ASSERT_EQ(ids, merged_slowly(model, characters, 0)) << text;
    }
  }
}

// The same with an ordered set of candidates, for long texts.
std::vector<TokenId> merged_by_set(const BpeModel& model, std::vector<TokenId> ids) {
  std::map<std::pair<TokenId, TokenId>, size_t> rank_of;
  for (size_t rank = model.merges.size(); rank-- > 0;) {
    rank_of[{model.merges[rank].left, model.merges[rank].right}] = rank;
  }
  std::map<size_t, TokenId> at;  // place -> token
  for (size_t i = 0; i < ids.size(); ++i) at[i] = ids[i];
  std::set<std::pair<size_t, size_t>> candidates;  // rank, left place
  const auto change = [&](auto left, bool add) {
    const auto right = std::next(left);
    if (right == at.end()) return;
    const auto found = rank_of.find({left->second, right->second});
    if (found == rank_of.end()) return;
    if (add) {
      candidates.insert({found->second, left->first});
    } else {
      candidates.erase({found->second, left->first});
    }
  };
  for (auto i = at.begin(); i != at.end(); ++i) change(i, true);
  while (!candidates.empty()) {
    const auto [rank, place] = *candidates.begin();
    const auto left = at.find(place);
    if (left != at.begin()) change(std::prev(left), false);
    change(left, false);
    change(std::next(left), false);
    left->second = model.merges[rank].result;
    at.erase(std::next(left));
    if (left != at.begin()) change(std::prev(left), true);
    change(left, true);
  }
  ids.clear();
  for (const auto& [place, id] : at) ids.push_back(id);
  return ids;
}

// Ranks out of order, so that merges make candidates of ranks that are past.
TEST(CharBpe, IsTheDefinitionOnLongTexts) {
  std::mt19937 draw(12);
  for (const size_t size : {1000, 65535, 65536, 65537, 90001}) {
    BpeModel model;
    model.tokens = {"a", "b", "c"};
    for (int tries = 0; tries < 300; ++tries) {
      const auto left = static_cast<TokenId>(draw() % model.tokens.size());
      const auto right = static_cast<TokenId>(draw() % model.tokens.size());
      const std::string text = model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
      if (text.size() > 7) continue;
      const auto found = std::find(model.tokens.begin(), model.tokens.end(), text);
      const auto result = static_cast<TokenId>(found - model.tokens.begin());
      if (found == model.tokens.end()) model.tokens.push_back(text);
      const BpeMerge merge{left, right, result};
      if (std::find(model.merges.begin(), model.merges.end(), merge) == model.merges.end())
        model.merges.push_back(merge);
    }
    for (size_t i = 0; i < model.merges.size() / 4; ++i) {
      std::swap(model.merges[draw() % model.merges.size()], model.merges[draw() % model.merges.size()]);
    }
    std::string text;
    std::vector<TokenId> ids;
    for (size_t i = 0; i < size; ++i) {
      ids.push_back(static_cast<TokenId>(draw() % 3));
      text += model.tokens[static_cast<size_t>(ids.back())];
    }
    ASSERT_EQ(CharBpe(model, "t").encode(text), merged_by_set(model, ids));
  }
}

// What stays in one piece is merged in n log n, and what an encoder remembers is bounded: many more words than fit.
TEST(CharBpe, LongRunsAndManyWords) {
  const CharBpe bpe(model_of({"a", "aa", "aaaa", " ", "1", "2", " 1"}, {{"a", "a"}, {"aa", "aa"}, {" ", "1"}}), "t");
  EXPECT_EQ(bpe.encode(std::string(1000003, 'a')).size(), 250000 + 2);
  const auto encoder = bpe.make_encoder();
  std::mt19937 draw(3);
  for (int i = 0; i < 300000; ++i) {
    const uint32_t bits = draw();
    std::string word;
    std::vector<TokenId> expected, ids;
    for (int bit = 0; bit < 20; ++bit) {
      word += (bits >> bit & 1) != 0 ? "aa" : "aaaa";
    }
    const size_t count = word.size();
    encoder->encode(word, ids);
    ASSERT_EQ(ids.size(), count / 4 + (count % 4) / 2);
    ASSERT_EQ(ids.back(), count % 4 == 0 ? 2 : 1);
  }
}

}  // namespace
}  // namespace partita::internal
