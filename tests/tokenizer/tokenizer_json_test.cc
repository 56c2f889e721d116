#include "partita/tokenizer/formats/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kGoldenFile = PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json";

json golden() { return json::parse(read_file(kGoldenFile)); }
std::string refusal(const json& document) {
  return error_message([&] { return parse_tokenizer_json(document.dump(), "t.json"); });
}

bool equal(const BpeModel& a, const BpeModel& b) {
  return a.tokens == b.tokens && a.merges == b.merges && a.special == b.special;
}

TEST(TokenizerJson, WhatIsSavedLoadsAgain) {
  const TemporaryDirectory folder;
  BpeModel model = load_tokenizer_json(kGoldenFile);
  model.tokens.emplace_back("<|\"odd\\ name é|>");
  model.special.push_back(700);
  save_tokenizer_json(model, folder / "tokenizer.json");
  EXPECT_TRUE(equal(load_tokenizer_json(folder / "tokenizer.json"), model));
  EXPECT_EQ(load_tokenizer(folder.path())->vocab_size(), 701);
}

TEST(TokenizerJson, MergesMayBeStringsOrPairs) {
  json document = golden();
  ASSERT_TRUE(document["model"]["merges"][0].is_array());
  for (json& merge : document["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  EXPECT_TRUE(equal(parse_tokenizer_json_model(document.dump(), "t.json"), load_tokenizer_json(kGoldenFile)));
}

TEST(TokenizerJson, OlderFilesLeaveFieldsOut) {
  json document = golden();
  document["pre_tokenizer"].erase("use_regex");
  for (const char* name : {"ignore_merges", "byte_fallback", "fuse_unk"}) document["model"].erase(name);
  document["model"]["continuing_subword_prefix"] = "";
  EXPECT_TRUE(equal(parse_tokenizer_json_model(document.dump(), "t.json"), load_tokenizer_json(kGoldenFile)));
}

// What would change ids is refused by name.
TEST(TokenizerJson, RefusesWhatItDoesNotSupport) {
  struct Case {
    const char* pointer;
    json value;
    const char* message;
  };
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", "\\bx"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const std::vector<Case> cases = {
      {"/normalizer", {{"type", "Lowercase"}}, "t.json: normalizer of type Lowercase is not supported: NFC, NFD"},
      {"/normalizer", {{"type", "NFC"}, {"x", 1}}, "t.json: normalizer.x is not supported (found 1)"},
      {"/normalizer", json::parse(R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Bert"}]})"),
       "t.json: normalizer.normalizers[1] of type Bert is not supported"},
      {"/normalizer", json::parse(R"x({"type":"Replace","pattern":{"Regex":"(?<n>x)"},"content":""})x"),
       "t.json: normalizer.pattern.Regex: the regular expression (?<n>x) is not supported: the group (?<n"},
      {"/pre_tokenizer/add_prefix_space", 1, "pre_tokenizer.add_prefix_space: true or false expected, found 1"},
      {"/pre_tokenizer/type", "BertPreTokenizer", "t.json: pre_tokenizer of type BertPreTokenizer is not supported"},
      {"/pre_tokenizer/extra", 1, "pre_tokenizer.extra is not supported (found 1)"},
      {"/pre_tokenizer", split, "pre_tokenizer.pattern.Regex: the regular expression \\bx is not supported: \\b"},
      {"/pre_tokenizer",
       {{"type", "Punctuation"}, {"behavior", "X"}},
       "pre_tokenizer.behavior = \"X\" is not supported"},
      {"/pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "x"}},
       "pre_tokenizer.prepend_scheme = \"x\" is not supported: always, first or never expected"},
      {"/post_processor", {{"type", "X"}}, "t.json: post_processor of type X is not supported"},
      {"/post_processor", {{"type", "BertProcessing"}, {"sep", {"x", 1}}, {"cls", 5}}, "post_processor.cls: an array"},
      {"/post_processor",
       {{"type", "BertProcessing"}, {"sep", {"x", -1}}, {"cls", {"y", 2}}},
       "post_processor.sep: an id, 0 or more, expected, found -1"},
      {"/post_processor",
       {{"type", "BertProcessing"}, {"sep", {"x", 1}}, {"cls", {"y", 700}}},
       "t.json: post_processor: token 700 is outside the vocabulary of 700"},
      {"/decoder", {{"type", "WordPiece"}}, "t.json: decoder of type WordPiece is not supported"},
      {"/model/type", "WordPiece", "model.type = \"WordPiece\" is not supported: BPE or Unigram expected"},
      {"/model/type", "Unigram", "model.type = \"Unigram\" with a ByteLevel pre_tokenizer is not supported"},
      {"/model/dropout", 0.1, "model.dropout = 0.1 is not supported"},
      {"/model/ignore_merges", 1, "model.ignore_merges: true or false expected, found 1"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix = \"</w>\" is not supported"},
      {"/model/vocab", 3, "model.vocab: an object expected, found 3"},
      {"/model/vocab/a", "x", "model.vocab[\"a\"]: an integer expected, found \"x\""},
      {"/model/vocab/a", -1, "token \"a\" has the id -1"},
      {"/model/vocab/a", 65, "both have the id 65"},
      {"/model/vocab/a", 5000, "700 tokens, but \"a\" has the id 5000: ids are expected to be below 2424"},
      {"/model/merges/3", "abc", "model.merges[3]: \"left right\" or [left, right] expected, found \"abc\""},
      {"/model/merges/3", json::array({"a", "zzz"}), "merge 4 (\"a\" \"zzz\"): \"zzz\" is not in the vocabulary"},
      {"/added_tokens/0/special", 1, "added_tokens[0].special: true or false expected, found 1"},
      {"/added_tokens/0/id", 3, "t.json: added_tokens[0].id = 3 of \"<|endoftext|>\" is not supported: 699 expected"},
      {"/added_tokens/0/id", 700, "added_tokens[0].id = 700 of \"<|endoftext|>\" is not supported: 699 expected"},
      {"/added_tokens/0/id", 2147483647, "added_tokens[0].id = 2147483647 of"},
      {"/added_tokens/0/content", "a", "added_tokens[0].id = 699 of \"a\" is not supported: 64 expected, which the"},
      {"/added_tokens/0/content", "", "t.json: added_tokens[0].content is empty"},
      {"/added_tokens/0/id", 4294967296, "added_tokens[0].id: an id, 0 or more, expected, found 4294967296"},
  };
  for (const Case& item : cases) {
    json document = golden();
    document[json::json_pointer(item.pointer)] = item.value;
    EXPECT_THAT(refusal(document), HasSubstr(item.message)) << item.pointer;
  }
  json document = golden();
  document["model"]["vocab"]["a b"] = 700;
  document["added_tokens"] = json::array();
  EXPECT_THAT(refusal(document), HasSubstr("token 700 (\"a b\") is not the printable form of bytes"));
}

// Of a vocabulary of characters.
TEST(TokenizerJson, RefusesWhatAVocabularyOfCharactersCannotBe) {
  json document = golden();
  document["pre_tokenizer"] = nullptr;
  document["decoder"] = nullptr;
  document["model"]["unk_token"] = "<nothing>";
  EXPECT_THAT(refusal(document), HasSubstr("t.json: model.unk_token \"<nothing>\" is not in the vocabulary"));
  document["added_tokens"] = json::array();
  document["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::array({json::array({"a", "b"})})}};
  EXPECT_THAT(refusal(document), HasSubstr("t.json: model.vocab[0]: [token, score] expected, found [\"a\",\"b\"]"));
  document["decoder"] =
      json::parse(R"({"type":"Sequence","decoders":[{"type":"Strip","content":" ","start":1,"stop":0}]})");
  EXPECT_THAT(refusal(document), HasSubstr("decoder.decoders[0] of type Strip is not supported in front of Fuse"));
  EXPECT_THAT(error_message([&] { return parse_tokenizer_json_model(document.dump(), "t.json"); }),
              HasSubstr("t.json: a model of type BPE with a ByteLevel pre_tokenizer expected"));
}

// The ids that `tokenizers` gives are known from the vocabulary and the order; those of the file have to be these.
TEST(TokenizerJson, AddedTokensHaveTheIdsThatFollow) {
  const auto added = [](TokenId id, const char* content) { return json{{"id", id}, {"content", content}}; };
  json document = golden();
  document["added_tokens"] = {added(699, "<x>"), added(64, "a"), added(700, "<y>"), added(699, "<x>")};
  EXPECT_EQ(parse_tokenizer_json(document.dump(), "t.json")->vocab_size(), 701);
  document["added_tokens"] = {added(700, "<x>"), added(699, "<y>")};
  EXPECT_THAT(refusal(document), HasSubstr("added_tokens[0].id = 700 of \"<x>\" is not supported: 699 expected"));
  document["pre_tokenizer"] = document["decoder"] = nullptr;
  document["model"] = json::parse(R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1]]})");
  document["added_tokens"] = {added(0, "<unk>"), added(2, "<x>")};
  EXPECT_EQ(parse_tokenizer_json(document.dump(), "t.json")->vocab_size(), 3);
  document["added_tokens"][1]["id"] = 2147483647;  // would be a table of 64 GiB
  EXPECT_THAT(refusal(document), HasSubstr("added_tokens[1].id = 2147483647 of \"<x>\" is not supported: 2 expected"));
}

// `tokenizers` makes other pieces of these; each is refused with its place.
TEST(TokenizerJson, RefusesWhatTheReferenceUnderstandsDifferently) {
  struct Case {
    const char *part, *value, *message;
  };
  const std::vector<Case> cases = {
      {"pre_tokenizer",
       R"x({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},
          {"type":"ByteLevel","add_prefix_space":false}]})x",
       "t.json: pre_tokenizer.pretokenizers[1]: a second ByteLevel is not supported"},
      {"pre_tokenizer", R"x({"type":"Split","pattern":{"String":""},"behavior":"Isolated"})x",
       "t.json: pre_tokenizer.pattern.String = \"\" is not supported"},
      {"normalizer", R"x({"type":"Replace","pattern":{"String":""},"content":"x"})x",
       "t.json: normalizer.pattern.String = \"\" is not supported"},
      {"pre_tokenizer", R"x({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}+"},"behavior":"Isolated"})x",
       "pre_tokenizer.pattern.Regex: the regular expression \\p{N}{1,3}+ is not supported"},
      {"decoder", R"x({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Fuse"}]})x",
       "t.json: decoder.decoders[1] of type Fuse is not supported at this place"},
      {"decoder", R"x({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteLevel"}]})x",
       "t.json: decoder.decoders[1] of type ByteLevel is not supported at this place"},
      {"decoder",
       R"x({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"a"},"content":"b"},
          {"type":"Metaspace","replacement":"_"}]})x",
       "t.json: decoder.decoders[1] of type Metaspace is not supported at this place"},
      {"decoder", R"x({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Metaspace","replacement":"_"}]})x",
       "t.json: decoder.decoders[1] of type Metaspace is not supported at this place"},
      {"decoder",
       R"x({"type":"Sequence","decoders":[{"type":"ByteFallback"},
          {"type":"Replace","pattern":{"String":"a"},"content":"b"}]})x",
       "t.json: decoder.decoders[1] of type Replace is not supported at this place"},
  };
  for (const auto& [part, value, message] : cases) {
    json document = golden();
    document[part] = json::parse(value);
    EXPECT_THAT(refusal(document), HasSubstr(message)) << value;
  }
}

// " abc" with its space removed does not begin at the beginning for `tokenizers`: no replacement in front.
TEST(TokenizerJson, MetaspaceFirstNeedsTheBeginningOfTheText) {
  json document = golden();
  document["decoder"] = nullptr;
  document["model"] = json::parse(R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["▁",-1]]})");
  document["added_tokens"] = json::array();
  const json first = json::parse(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})");
  const auto behind = [&](const char* step) {
    document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {json::parse(step), first}}};
  };
  document["pre_tokenizer"] = first;
  document["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(parse_tokenizer_json(document.dump(), "t.json")->encode("a"), (std::vector<TokenId>{2, 1}));
  const char* message = "t.json: pre_tokenizer: Metaspace with prepend_scheme = \"first\" is not supported after";
  // "e" and the accent of é would both begin at 0.
  behind(R"({"type":"Split","pattern":{"String":"e"},"behavior":"Isolated"})");
  EXPECT_THAT(refusal(document), HasSubstr(message));
  document["normalizer"] = nullptr;
  EXPECT_EQ(parse_tokenizer_json(document.dump(), "t.json")->encode("a"), (std::vector<TokenId>{2, 1}));
  behind(R"({"type":"WhitespaceSplit"})");
  EXPECT_THAT(refusal(document), HasSubstr(message));
  document["pre_tokenizer"] = first;
  for (const char* normalizer : {R"({"type":"Strip","strip_left":true,"strip_right":false})",
                                 R"({"type":"Replace","pattern":{"Regex":"^ +"},"content":""})",
                                 R"({"type":"Prepend","prepend":"▁"})", R"({"type":"StripAccents"})"}) {
    document["normalizer"] = json::parse(normalizer);
    EXPECT_THAT(refusal(document), HasSubstr(message)) << normalizer;
  }
  document["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(refusal(document), "no error");
}

// GPT-NeoX's vocabulary has no tokens for bytes that stand in no UTF-8.
TEST(TokenizerJson, BytesOfNoTextMayLackTokens) {
  json document = golden();
  document["model"]["vocab"].erase("À");  // 0xC0
  document["added_tokens"] = json::array();
  document["model"]["merges"] = json::array();
  const auto tokenizer = parse_tokenizer_json(document.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("a\xC0 b"), tokenizer->encode("a\uFFFD b"));
  EXPECT_EQ(tokenizer->encode("À"), parse_tokenizer_json(golden().dump(), "t.json")->encode("À"));
  document["model"]["vocab"].erase("Ã");  // 0xC3, which does
  EXPECT_THAT(refusal(document), HasSubstr("t.json: no token for byte 0xC3"));
}

TEST(TokenizerJson, IdsMayLeaveHoles) {
  json document = golden();
  document["model"]["vocab"]["Ġzz"] = 1234;
  document["added_tokens"][0]["id"] = 700;  // behind the number of tokens, not behind the last id
  const auto tokenizer = parse_tokenizer_json(document.dump(), "t.json");
  EXPECT_EQ(tokenizer->vocab_size(), 1235);
  EXPECT_EQ(tokenizer->end_of_document(), 700);
  EXPECT_EQ(tokenizer->bytes_of(1000), "");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{700, 1234}), "<|endoftext|> zz");
  document["model"]["vocab"]["Ġzzz"] = 701;  // two tokens would have the id 701
  document["added_tokens"][0]["id"] = 701;
  EXPECT_THAT(refusal(document), HasSubstr("both have the id 701"));
}

TEST(TokenizerJson, NamesWhatIsMissing) {
  json document = golden();
  document.erase("model");
  EXPECT_THAT(refusal(document), HasSubstr("t.json: model is missing (an object expected)"));
  document = golden();
  document["model"].erase("merges");
  EXPECT_THAT(refusal(document), HasSubstr("model.merges is missing (an array expected)"));
  document = golden();
  document["model"]["vocab"].erase("a");
  document["added_tokens"] = json::array();
  EXPECT_THAT(refusal(document), HasSubstr("t.json: merge"));
  EXPECT_THAT(error_message([] { return parse_tokenizer_json("{", "t.json"); }),
              HasSubstr("t.json:1:2: not valid JSON"));
  const std::string deep = "{\"padding\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_THAT(error_message([&] { return parse_tokenizer_json(deep, "t.json"); }), HasSubstr("more than 64 deep"));
  EXPECT_THAT(error_message([] { return parse_tokenizer_json("[]", "t.json"); }), HasSubstr("an object expected"));
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { return load_tokenizer(folder.path()); }),
              HasSubstr("tokenizer.json, tokenizer.model, vocab.json"));
  EXPECT_THAT(error_message([&] { return load_tokenizer(folder / "no.json"); }), HasSubstr("no.json"));
}

// Files made to take all memory or time.
TEST(TokenizerJson, WhatGrowsWithoutBoundIsRefused) {
  const auto replace = [](const char* from, const std::string& to) {
    return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto with = [](const char* part, const char* list, const json& items) {
    json document = golden();
    document[part] = {{"type", "Sequence"}, {list, items}};
    return document;
  };
  const auto encoding_of = [](const json& document, const std::string& text) {
    return error_message([&] { (void)parse_tokenizer_json(document.dump(), "t.json")->encode(text); });
  };
  // Each of 40 steps doubles the text.
  const json doubling = with("normalizer", "normalizers", json(40, replace("a", "aa")));
  EXPECT_THAT(encoding_of(doubling, std::string(1000, 'a')),
              HasSubstr("t.json: normalizer: step 7 of 40: a replacement makes a text of 64000 bytes too long: at most "
                        "81536 bytes are expected of a text of 1000"));
  EXPECT_EQ(encoding_of(doubling, "b"), "no error");
  // One step that makes a gigabyte of each character, of a text and of an added token.
  json huge = with("normalizer", "normalizers", json::array({replace("a", std::string(size_t{1} << 20, 'x'))}));
  EXPECT_THAT(encoding_of(huge, "a"), HasSubstr("t.json: normalizer: step 1 of 1"));
  huge["added_tokens"][0]["normalized"] = true;
  huge["added_tokens"][0]["content"] = "aaaa";
  huge["model"]["vocab"].erase("<|endoftext|>");
  huge["model"]["vocab"]["aaaa"] = 699;
  EXPECT_THAT(refusal(huge), HasSubstr("t.json: normalizer: step 1 of 1"));
  const json regex = with("normalizer", "normalizers",
                          json(9, json{{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", "yyyyyyyy"}}));
  EXPECT_THAT(encoding_of(regex, std::string(100'000, 'y')), HasSubstr("too long"));
  const json prepend =
      with("normalizer", "normalizers", json(20, json{{"type", "Prepend"}, {"prepend", std::string(10'000, 'p')}}));
  EXPECT_THAT(encoding_of(prepend, "a"), HasSubstr("normalizer: step 7 of 20: the text of 1 bytes becomes too long"));
  EXPECT_THAT(refusal(with("normalizer", "normalizers", json(257, json{{"type", "NFC"}}))),
              HasSubstr("t.json: normalizer has 257 parts, at most 256 are supported"));
  EXPECT_THAT(refusal(with("pre_tokenizer", "pretokenizers",
                           json(2, json{{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}}))),
              HasSubstr("a second Metaspace is not supported"));
  EXPECT_THAT(
      refusal(with("pre_tokenizer", "pretokenizers", json::array({{{"type", "Metaspace"}, {"replacement", "__"}}}))),
      HasSubstr("replacement = \"__\": one character expected"));
  EXPECT_THAT(refusal(with("decoder", "decoders", json(40, replace("a", "aa")))), HasSubstr("too long"));
  const json piece = {{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}};
  json around = golden();
  around["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", json(1000, piece)},
      {"pair", json::array()},
      {"special_tokens", {{"<|endoftext|>", {{"id", "x"}, {"ids", {699}}, {"tokens", {"<|endoftext|>"}}}}}}};
  EXPECT_THAT(refusal(around), HasSubstr("t.json: post_processor has 1000 parts"));
}

// An expression that would try for hours ends with an error that names it. It ends in a class: for a letter at the end,
// PCRE2 looks first whether the text has it at all.
TEST(TokenizerJson, BacktrackingHasALimit) {
  json document = golden();
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(a+)+[bc]"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto tokenizer = parse_tokenizer_json(document.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("aab").empty(), false);
  EXPECT_THAT(error_message([&] { (void)tokenizer->encode(std::string(200, 'a')); }),
              HasSubstr("pre_tokenizer.pretokenizers[0].pattern.Regex: the regular expression could not be matched"));
}

// Of calls with several texts: transformers takes no notice of them in a file.
TEST(TokenizerJson, TruncationAndPaddingAreNotApplied) {
  json document = golden();
  document["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  document["padding"] = {{"strategy", {{"Fixed", 9}}}, {"direction", "Right"}, {"pad_id", 0}};
  const std::string text = "a text of some tokens";
  EXPECT_EQ(parse_tokenizer_json(document.dump(), "t.json")->encode(text),
            parse_tokenizer_json(golden().dump(), "t.json")->encode(text));
}

// Of normalized text: looked for, and decoded, as the normalizer spells them. Values from tokenizers 0.23.
TEST(TokenizerJson, AddedTokensOfNormalizedTextAreDecodedAsTheyAreSpeltThere) {
  const auto tokenizer = [](bool normalized) {
    json document =
        json::parse(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":3,"content":"IP",
      "single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}],
      "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
        {"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
      "pre_tokenizer":null,"post_processor":null,
      "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
        {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
      "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
        "fuse_unk":false,"byte_fallback":false,"vocab":{"▁":0,"a":1,"▁a":2},"merges":["▁ a"]}})");
    document["added_tokens"][0]["normalized"] = normalized;
    return parse_tokenizer_json(document.dump(), "t.json");
  };
  const std::vector<TokenId> ids = {2, 3, 1};
  EXPECT_EQ(tokenizer(true)->encode("a IPa"), ids);
  EXPECT_EQ(tokenizer(true)->decode(ids), "a IPa");
  EXPECT_EQ(tokenizer(false)->decode(ids), "aIPa");
}

}  // namespace
}  // namespace partita::internal
