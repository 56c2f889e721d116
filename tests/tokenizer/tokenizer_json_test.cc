#include "partita/tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/bpe.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita {
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
  EXPECT_TRUE(equal(parse_tokenizer_json(document.dump(), "t.json"), load_tokenizer_json(kGoldenFile)));
}

TEST(TokenizerJson, OlderFilesLeaveFieldsOut) {
  json document = golden();
  document["pre_tokenizer"].erase("use_regex");
  for (const char* name : {"ignore_merges", "byte_fallback", "fuse_unk"}) document["model"].erase(name);
  document["model"]["continuing_subword_prefix"] = "";
  EXPECT_TRUE(equal(parse_tokenizer_json(document.dump(), "t.json"), load_tokenizer_json(kGoldenFile)));
}

// What would change ids is refused by name.
TEST(TokenizerJson, RefusesWhatItDoesNotSupport) {
  struct Case {
    const char* pointer;
    json value;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"/normalizer", {{"type", "NFC"}}, "t.json: normalizer = {\"type\":\"NFC\"} is not supported: null expected"},
      {"/pre_tokenizer/add_prefix_space", true, "pre_tokenizer.add_prefix_space = true is not supported"},
      {"/pre_tokenizer/use_regex", false, "pre_tokenizer.use_regex = false is not supported"},
      {"/pre_tokenizer/type", "Metaspace", "pre_tokenizer of type Metaspace is not supported: ByteLevel expected"},
      {"/pre_tokenizer/extra", 1, "pre_tokenizer.extra is not supported (found 1)"},
      {"/pre_tokenizer", nullptr, "pre_tokenizer is missing or null: ByteLevel expected"},
      {"/post_processor", {{"type", "TemplateProcessing"}}, "post_processor of type TemplateProcessing is not"},
      {"/decoder", {{"type", "Fuse"}}, "decoder of type Fuse is not supported"},
      {"/truncation", {{"max_length", 8}}, "truncation = {\"max_length\":8} is not supported"},
      {"/model/type", "Unigram", "model.type = \"Unigram\" is not supported: \"BPE\" expected"},
      {"/model/dropout", 0.1, "model.dropout = 0.1 is not supported"},
      {"/model/ignore_merges", true, "model.ignore_merges = true is not supported: false expected"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix = \"</w>\" is not supported"},
      {"/model/vocab", 3, "model.vocab: an object expected, found 3"},
      {"/model/vocab/a", "x", "model.vocab[\"a\"]: an integer expected, found \"x\""},
      {"/model/vocab/a", -1, "token \"a\" has the id -1"},
      {"/model/vocab/a", 65, "both have the id 65"},
      {"/model/vocab/a", 5000, "\"a\" has the id 5000: ids are expected to be 0 to 699 without holes"},
      {"/model/vocab/a b", 700, "token 700 (\"a b\") is not the printable form of bytes"},
      {"/model/merges/3", "abc", "model.merges[3]: \"left right\" or [left, right] expected, found \"abc\""},
      {"/model/merges/3", json::array({"a", "zzz"}), "merge 4 (\"a\" \"zzz\"): \"zzz\" is not in the vocabulary"},
      {"/added_tokens/0/special", false, "added_tokens[0].special = false (\"<|endoftext|>\") is not supported"},
      {"/added_tokens/0/id", 3, "both have the id 3"},
  };
  for (const Case& item : cases) {
    json document = golden();
    document[json::json_pointer(item.pointer)] = item.value;
    EXPECT_THAT(refusal(document), HasSubstr(item.message)) << item.pointer;
  }
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
  EXPECT_THAT(refusal(document), HasSubstr("t.json: merge"));
  EXPECT_THAT(error_message([] { return parse_tokenizer_json("{", "t.json"); }), HasSubstr("t.json: not JSON"));
  EXPECT_THAT(error_message([] { return parse_tokenizer_json("[]", "t.json"); }), HasSubstr("an object expected"));
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { return load_tokenizer(folder.path()); }), HasSubstr("tokenizer.json, or vocab.json"));
  EXPECT_THAT(error_message([&] { return load_tokenizer(folder / "no.json"); }), HasSubstr("no.json"));
}

}  // namespace
}  // namespace partita
