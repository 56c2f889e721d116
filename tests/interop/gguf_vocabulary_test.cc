#include "partita/interop/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/byte_tokens.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "partita/tokenizer/sentencepiece/sentencepiece.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kLlama3Split = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| )"
                                     R"(?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json added(int64_t id, const char* content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

json byte_level_step(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

json before_text(int64_t id, const char* name) {
  return {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{name, {{"id", name}, {"ids", {id}}, {"tokens", {name}}}}}}};
}

// The 256 bytes, " t" (256), " th" (257), <end> (258), and an added token <tool> (259) that texts spell.
json byte_level() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[to_printable(std::string(1, static_cast<char>(byte_level_alphabet()[static_cast<size_t>(byte)])))] = byte;
  vocab["\u0120t"] = 256;
  vocab["\u0120th"] = 257;
  return {{"version", "1.0"},
          {"added_tokens", {added(258, "<end>", true), added(259, "<tool>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level_step(true)},
          {"post_processor", nullptr},
          {"decoder", byte_level_step(true)},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"\u0120 t", "\u0120t h"}}}}};
}

// Llama 2's kind: <unk> <s> </s>, the byte tokens, then characters and words.
json char_level() {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocab[byte_token_name(static_cast<unsigned char>(byte))] = 3 + byte;
  int id = 259;
  for (const char* token : {"\u2581", "t", "h", "\u2581t", "\u2581th"}) vocab[token] = id++;
  return {{"version", "1.0"},
          {"added_tokens", {added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", before_text(1, "<s>")},
          {"decoder", nullptr},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"\u2581 t", "\u2581t h"}}}}};
}

struct Found {
  std::map<std::string, GgufValue> metadata;
  std::vector<std::string> warnings;

  template <class T>
  [[nodiscard]] T at(const std::string& key) const {
    return std::get<T>(metadata.at("tokenizer.ggml." + key));
  }
  [[nodiscard]] bool has(const std::string& key) const { return metadata.contains("tokenizer.ggml." + key); }
};

Found vocabulary_of(const json& file, const GgufSpecialIds& ids, int64_t size) {
  const auto tokenizer = parse_tokenizer_json(file.dump(), "tokenizer.json");
  GgufVocabulary v = gguf_vocabulary(tokenizer.get(), ids, size);
  return {{v.metadata.begin(), v.metadata.end()}, v.warnings};
}

TEST(GgufVocabulary, OfByteLevelBpe) {
  const Found v = vocabulary_of(byte_level(), {.bos = 258, .pad = 3, .eos = {258, 3, 259}}, 262);
  EXPECT_THAT(v.warnings, IsEmpty());
  EXPECT_EQ(v.at<std::string>("model"), "gpt2");
  EXPECT_EQ(v.at<std::string>("pre"), "gpt-2");
  const auto tokens = v.at<std::vector<std::string>>("tokens");
  ASSERT_EQ(tokens.size(), 262U);
  EXPECT_EQ(tokens[0], "!");
  EXPECT_THAT(std::vector(tokens.begin() + 255, tokens.end()),
              ElementsAre("\u0143", "\u0120t", "\u0120th", "<end>", "<tool>", "[PAD260]", "[PAD261]"));
  const auto types = v.at<std::vector<int32_t>>("token_type");
  EXPECT_THAT(std::vector(types.begin() + 256, types.end()), ElementsAre(1, 1, 3, 4, 5, 5));
  EXPECT_THAT(v.at<std::vector<std::string>>("merges"), ElementsAre("\u0120 t", "\u0120t h"));
  EXPECT_EQ(v.at<uint32_t>("bos_token_id"), 258U);
  EXPECT_EQ(v.at<uint32_t>("eos_token_id"), 258U);
  EXPECT_EQ(v.at<uint32_t>("eot_token_id"), 259U);
  EXPECT_EQ(v.at<uint32_t>("padding_token_id"), 3U);
  EXPECT_FALSE(v.at<bool>("add_bos_token"));
  EXPECT_FALSE(v.at<bool>("add_eos_token"));
}

TEST(GgufVocabulary, WhatIsInFrontOfATextIsItsBegin) {
  json file = byte_level();
  file["post_processor"] = before_text(258, "<end>");
  const Found v = vocabulary_of(file, {.bos = 7, .eos = {259}}, 260);
  EXPECT_EQ(v.at<uint32_t>("bos_token_id"), 258U);
  EXPECT_TRUE(v.at<bool>("add_bos_token"));
  EXPECT_FALSE(v.has("eot_token_id"));
  EXPECT_FALSE(v.has("padding_token_id"));
}

TEST(GgufVocabulary, WithoutIdsTheReaderIsWarned) {
  const Found end = vocabulary_of(byte_level(), {.eos = {258}}, 260);
  EXPECT_EQ(end.at<uint32_t>("bos_token_id"), 258U);
  const Found none = vocabulary_of(byte_level(), {}, 260);
  EXPECT_FALSE(none.has("bos_token_id"));
  EXPECT_FALSE(none.has("eos_token_id"));
  EXPECT_THAT(none.warnings, ElementsAre(HasSubstr("no token ends a text of this model")));
  // Ids out of the vocabulary's range are none; the others keep their meaning.
  const Found outside = vocabulary_of(byte_level(), {.bos = 260, .pad = -1, .eos = {260}}, 260);
  for (const char* key : {"bos_token_id", "eos_token_id", "eot_token_id", "padding_token_id"})
    EXPECT_FALSE(outside.has(key)) << key;
  EXPECT_THAT(outside.warnings, ElementsAre(HasSubstr("no token ends a text of this model")));
  const Found second = vocabulary_of(byte_level(), {.eos = {260, 258}}, 260);
  EXPECT_EQ(second.at<uint32_t>("eos_token_id"), 258U);
  EXPECT_FALSE(second.has("eot_token_id"));
}

TEST(GgufVocabulary, NamesOfPreTokenizers) {
  json file = byte_level();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", kLlama3Split}}}, {"behavior", "Isolated"}, {"invert", false}},
        byte_level_step(false)}}};
  EXPECT_EQ(vocabulary_of(file, {.eos = {258}}, 260).at<std::string>("pre"), "dbrx");
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(vocabulary_of(file, {.eos = {258}}, 260).at<std::string>("pre"), "llama-bpe");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\d";
  const Found other = vocabulary_of(file, {.eos = {258}}, 260);
  EXPECT_FALSE(other.has("pre"));
  EXPECT_THAT(other.warnings, ElementsAre(HasSubstr("may tokenize text differently")));
  file = byte_level();
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(vocabulary_of(file, {.eos = {258}}, 260).warnings,
              ElementsAre(HasSubstr("may tokenize text differently")));

  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::gpt2, false), "gpt-2");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::gpt2, true), "");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::qwen2, false), "qwen2");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::o200k, false), "gpt-4o");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::tekken, true), "tekken");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::tekken, false), "");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::cl100k, false), "");
  EXPECT_EQ(gguf_pre_tokenizer(SplitPattern::whole, false), "");
}

TEST(GgufVocabulary, OfCharacterBpe) {
  const Found v = vocabulary_of(char_level(), {.bos = 1, .eos = {2}}, 264);
  EXPECT_THAT(v.warnings, IsEmpty());
  EXPECT_EQ(v.at<std::string>("model"), "llama");
  EXPECT_TRUE(v.at<bool>("add_space_prefix"));
  EXPECT_TRUE(v.at<bool>("add_bos_token"));
  const auto types = v.at<std::vector<int32_t>>("token_type");
  EXPECT_THAT(std::vector(types.begin(), types.begin() + 4), ElementsAre(3, 3, 3, 6));
  EXPECT_EQ(types[263], 1);
  const auto scores = v.at<std::vector<float>>("scores");
  EXPECT_EQ(scores[262], -1);  // the first merge
  EXPECT_EQ(scores[263], -2);
  EXPECT_LT(scores[1], -1e6);
  EXPECT_FALSE(v.has("merges"));
  json other = char_level();
  other["normalizer"]["normalizers"].push_back({{"type", "NFKC"}});
  EXPECT_THAT(vocabulary_of(other, {.bos = 1, .eos = {2}}, 264).warnings,
              ElementsAre(HasSubstr("may tokenize text differently")));
  other = char_level();
  other["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  EXPECT_FALSE(vocabulary_of(other, {.bos = 1, .eos = {2}}, 264).at<bool>("add_space_prefix"));
}

// llama.cpp merges whatever together is a token; a list of merges may say less.
TEST(GgufVocabulary, MergesThatAreNotScores) {
  const auto warnings = [](const json& file) { return vocabulary_of(file, {.bos = 1, .eos = {2}}, 280).warnings; };
  const auto differs = ElementsAre(HasSubstr("llama.cpp merges all characters and tokens that together are a token"));
  const auto with = [](const std::vector<const char*>& tokens, const json& merges) {
    json file = char_level();
    int id = 264;
    for (const char* token : tokens) file["model"]["vocab"][token] = id++;
    file["model"]["merges"] = merges;
    return file;
  };
  EXPECT_THAT(warnings(with({"th"}, {"\u2581 t", "\u2581t h"})), differs);  // nothing makes "th", or ▁th of it
  EXPECT_THAT(warnings(with({"th"}, {"\u2581 t", "t h", "\u2581t h"})), differs);
  EXPECT_THAT(warnings(with({"th"}, {"\u2581 t", "t h", "\u2581t h", "\u2581 th"})), IsEmpty());
  // Of two ways to make a token one comes after the merge of another one.
  EXPECT_THAT(warnings(with({"th"}, {"\u2581 t", "\u2581t h", "t h", "\u2581 th"})), differs);
  EXPECT_THAT(warnings(with({"h\u00e9"}, {"\u2581 t", "\u2581t h"})), differs);  // a character that is no token
  EXPECT_THAT(warnings(with({"xyz"}, {"\u2581 t", "\u2581t h"})), IsEmpty());    // which nothing can make
  json ignoring = char_level();
  ignoring["model"]["ignore_merges"] = true;
  EXPECT_THAT(warnings(ignoring), differs);
}

TEST(GgufVocabulary, WhatLlamaCppDoesNotPutAroundOrFindInATextIsWarnedOf) {
  const auto warnings = [](const json& file) { return vocabulary_of(file, {.bos = 1, .eos = {2}}, 280).warnings; };
  json spaces = char_level();
  spaces["normalizer"] = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  EXPECT_THAT(warnings(spaces), ElementsAre(HasSubstr("may tokenize text differently")));
  spaces["normalizer"] = nullptr;
  EXPECT_THAT(warnings(spaces), ElementsAre(HasSubstr("may tokenize text differently")));
  spaces["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_THAT(warnings(spaces), IsEmpty());

  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* name) { return json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; };
  const auto around = [&](const json& single) {
    json file = char_level();
    file["post_processor"]["single"] = single;
    for (const auto& [name, id] : {std::pair("<unk>", 0), std::pair("<s>", 1), std::pair("</s>", 2)})
      file["post_processor"]["special_tokens"][name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    return warnings(file);
  };
  EXPECT_THAT(around({special("<s>"), text, special("</s>")}), IsEmpty());
  EXPECT_THAT(around(json::array({text})), IsEmpty());
  EXPECT_THAT(around({special("<s>"), special("</s>"), text}), ElementsAre(HasSubstr("(2 before, 0 after)")));
  EXPECT_THAT(around({special("<s>"), text, special("<unk>")}), ElementsAre(HasSubstr("(1 before, 1 after)")));
  EXPECT_THAT(around({text, special("</s>"), special("</s>")}), ElementsAre(HasSubstr("(0 before, 2 after)")));

  for (const char* field : {"lstrip", "rstrip", "single_word", "normalized"}) {
    const auto with = [&](json file, int64_t id) {
      json token = added(id, "<mask>", true);
      token[field] = true;
      file["added_tokens"].push_back(token);
      return warnings(file);
    };
    const auto differs = ElementsAre(HasSubstr("differently around '<mask>'"));
    EXPECT_THAT(with(char_level(), 264), differs) << field;
    if (field == std::string("normalized"))
      EXPECT_THAT(with(byte_level(), 260), IsEmpty());  // without a normalizer every text is normalized
    else
      EXPECT_THAT(with(byte_level(), 260), differs) << field;
  }
}

TEST(GgufVocabulary, OfSentencePiece) {
  const auto tokenizer = load_sentencepiece(PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/bpe_bytes.model");
  const GgufVocabulary found = gguf_vocabulary(tokenizer.get(), {.bos = 1, .eos = {2}}, tokenizer->vocab_size());
  const Found v{{found.metadata.begin(), found.metadata.end()}, found.warnings};
  EXPECT_THAT(v.warnings, IsEmpty());
  EXPECT_EQ(v.at<std::string>("model"), "llama");
  EXPECT_EQ(v.at<uint32_t>("unknown_token_id"), 0U);
  EXPECT_EQ(v.at<uint32_t>("bos_token_id"), 1U);
  const auto types = v.at<std::vector<int32_t>>("token_type");
  EXPECT_THAT(std::vector(types.begin(), types.begin() + 4), ElementsAre(2, 3, 3, 6));
  EXPECT_EQ(v.at<std::vector<std::string>>("tokens")[3], "<0x00>");
  const auto scores = v.at<std::vector<float>>("scores");
  EXPECT_EQ(scores[260], -1);
  // Pieces that are not used, and rules that change a text, are others' business: SentencePiece's alone.
  const auto unused = load_sentencepiece(PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/bpe_unused_bytes.model");
  EXPECT_THAT(gguf_vocabulary(unused.get(), {.bos = 1, .eos = {2}}, 2000).warnings,
              ElementsAre(HasSubstr("may tokenize text differently")));
}

TEST(GgufVocabulary, ATokenizerThatLlamaCppLacksIsLeftOut) {
  json no_bytes = char_level();
  no_bytes["model"]["byte_fallback"] = false;
  const auto characters = parse_tokenizer_json(no_bytes.dump(), "tokenizer.json");
  const auto unigram = load_sentencepiece(PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/unigram_bytes.model");
  for (const Tokenizer* tokenizer : {characters.get(), unigram.get(), static_cast<Tokenizer*>(nullptr)}) {
    const GgufVocabulary v = gguf_vocabulary(tokenizer, {}, 2000);
    EXPECT_EQ(v.metadata, (GgufMetadata{{"tokenizer.ggml.model", std::string("none")}}));
    EXPECT_THAT(v.warnings, ElementsAre(HasSubstr("ids alone")));
  }
}

TEST(GgufVocabulary, RefusesWhatLlamaCppDoesNotLoad) {
  EXPECT_THAT(error_message([] { (void)vocabulary_of(byte_level(), {}, 259); }),
              HasSubstr("the tokenizer has a token 259, the model knows 259 tokens"));
  json twice = byte_level();
  twice["added_tokens"].push_back(added(260, "[PAD261]", true));
  EXPECT_THAT(error_message([&] { (void)vocabulary_of(twice, {}, 262); }),
              HasSubstr("tokens 260 and 261 of the tokenizer are both '[PAD261]'"));
}

}  // namespace
}  // namespace partita::internal
