// Special tokens in prompts: matched, prepended, and counted where they are not matched.
#include "partita/tokenizer/prompt_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/formats/tokenizer_json.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<TokenId>;

// The 256 bytes, "<s>" in front of each text and "</s>" after it, chat markers, and an ordinary added token.
std::unique_ptr<Tokenizer> chat_tokenizer() {
  using nlohmann::json;
  const auto added = [](int id, const char* content, bool special) {
    return json{{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
  };
  const auto piece = [](const char* name) { return json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; };
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto known = [](const char* name, int id) { return json{{"id", name}, {"ids", {id}}, {"tokens", {name}}}; };
  json vocabulary = {
      {"a", 0},          {"b", 1},       {"<", 2}, {"|", 3}, {"<s>", 4}, {"</s>", 5}, {"<|im_start|>", 6},
      {"<|im_end|>", 7}, {"<|tool|>", 8}};
  int next = 9;
  for (const uint8_t byte : byte_level_alphabet()) {
    const std::string name = to_printable(std::string(1, static_cast<char>(byte)));
    if (!vocabulary.contains(name)) vocabulary[name] = next++;
  }
  const json file = {{"version", "1.0"},
                     {"added_tokens",
                      {added(4, "<s>", true), added(5, "</s>", true), added(6, "<|im_start|>", true),
                       added(7, "<|im_end|>", true), added(8, "<|tool|>", false)}},
                     {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                     {"post_processor",
                      {{"type", "TemplateProcessing"},
                       {"single", {piece("<s>"), text, piece("</s>")}},
                       {"pair", json::array()},
                       {"special_tokens", {{"<s>", known("<s>", 4)}, {"</s>", known("</s>", 5)}}}}},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  return parse_tokenizer_json(file.dump(), "chat.json");
}

class PromptText : public testing::Test {
 protected:
  Ids prompt(std::string_view text, const PromptSpecials& specials = {}) {
    PromptEncoder encoder(*tokenizer_, specials);
    Ids ids = {99};  // what was there stays
    encoder.prompt(text, ids);
    EXPECT_EQ(ids.front(), 99);
    unread_ = encoder.unread();
    return {ids.begin() + 1, ids.end()};
  }
  std::unique_ptr<Tokenizer> tokenizer_ = chat_tokenizer();
  std::optional<UnreadMarkers> unread_;
};

TEST_F(PromptText, MarkersAreTokensUnlessSwitchedOff) {
  EXPECT_THAT(prompt("<|im_start|>a<|im_end|>"), ElementsAre(4, 6, 0, 7));
  EXPECT_FALSE(unread_);
  EXPECT_THAT(prompt("<|im_start|>a", {.allow_special = true, .add_special = false}), ElementsAre(6, 0));
  const Ids plain = prompt("<|im_start|>a", {.allow_special = false, .add_special = false});
  EXPECT_EQ(plain, tokenizer_->encode("<|im_start|>a"));
  EXPECT_THAT(plain, testing::Not(testing::Contains(6)));
  ASSERT_TRUE(unread_);
  EXPECT_EQ(unread_->first, "<|im_start|>");
  EXPECT_TRUE(unread_->known);
}

TEST_F(PromptText, WhatIsPutInFrontIsThereOnce) {
  EXPECT_THAT(prompt("a"), ElementsAre(4, 0));
  EXPECT_THAT(prompt(""), ElementsAre(4));
  EXPECT_THAT(prompt("<s>a"), ElementsAre(4, 0));  // as a chat template writes it
  EXPECT_THAT(prompt("<s><s>a"), ElementsAre(4, 4, 0));
  // Spelled as ordinary text it is not there yet.
  EXPECT_EQ(prompt("<s>a", {.allow_special = false}).front(), 4);
  PromptEncoder encoder(*tokenizer_, {});
  Ids ids;
  encoder.completion("a<|im_end|>", ids);
  EXPECT_THAT(ids, ElementsAre(0, 7));
}

TEST_F(PromptText, WhatLooksLikeAMarkerIsCounted) {
  PromptEncoder encoder(*tokenizer_, {});
  Ids ids;
  for (const char* text : {"<|tool|>", "a <| b |> <||> <|a b|>", "<|", "<|x", "<|im_end|>"}) encoder.prompt(text, ids);
  EXPECT_FALSE(encoder.unread());
  encoder.prompt("<|im_start|>a <<|eot_id|> <|start_header_id|>", ids);
  encoder.completion("<|eot_id|>", ids);
  ASSERT_TRUE(encoder.unread());
  EXPECT_EQ(encoder.unread()->texts, 2);
  EXPECT_EQ(encoder.unread()->first, "<|eot_id|>");
  EXPECT_FALSE(encoder.unread()->known);
  EXPECT_THAT(describe(*encoder.unread(), "a.jsonl", "remedy"),
              HasSubstr("a.jsonl: 2 texts spell markers, such as <|eot_id|>, that are not tokens of this tokenizer"));
  EXPECT_EQ(joined(encoder.unread(), encoder.unread())->texts, 4);
  EXPECT_EQ(joined({}, encoder.unread())->texts, 2);
  EXPECT_FALSE(joined({}, {}));
}

// A SentencePiece model by itself finds no control pieces in text, whatever is asked: that is said.
TEST_F(PromptText, SentencePieceSaysWhatItDoesNotRead) {
  tokenizer_ = load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/bpe_bytes.model");
  const Ids ids = prompt("</s>the");
  EXPECT_EQ(ids.front(), 1);  // <s>
  ASSERT_TRUE(unread_);
  EXPECT_EQ(unread_->first, "</s>");
  EXPECT_THAT(describe(*unread_, "a.jsonl", "remedy"), HasSubstr("ordinary text: a SentencePiece model finds none"));
}

}  // namespace
}  // namespace partita::internal
