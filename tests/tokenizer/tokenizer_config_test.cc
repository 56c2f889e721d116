// Fields of tokenizer_config.json: applied, harmless, or rejected by name. Expected values are from transformers 5.24.
#include "partita/tokenizer/formats/tokenizer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/byte_level.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Config : public testing::Test {
 protected:
  void copy(const char* golden, const char* name) {
    fs::copy_file(fs::path(PARTITA_SOURCE_DIR "/tests/golden") / golden, folder_ / name);
  }
  void write(const json& config) { write_file(folder_ / "tokenizer_config.json", config.dump()); }
  std::string refusal(const json& config) {
    write(config);
    return error_message([&] { (void)load_tokenizer(folder_.path()); });
  }
  TemporaryDirectory folder_;
};

TEST_F(Config, OfATokenizerJson) {
  copy("tokenizer.json", "tokenizer.json");
  EXPECT_EQ(refusal({{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"model_max_length", 1000000000000000019884624838656.0},
                     {"add_bos_token", true},  // post_processor says what is put in front
                     {"add_eos_token", nullptr},
                     {"bos_token", {{"__type", "AddedToken"}, {"content", "<|endoftext|>"}, {"lstrip", false}}},
                     {"pad_token", nullptr},
                     {"added_tokens_decoder", {{"699", {{"content", "<|endoftext|>"}, {"special", true}}}}},
                     {"extra_special_tokens", json::array()},
                     {"chat_template", "{{ messages }}"},
                     {"clean_up_tokenization_spaces", true},
                     {"something_new", 3}}),
            "no error");
  EXPECT_TRUE(load_tokenizer(folder_.path())->tokens_in_front().empty());
  EXPECT_THAT(refusal({{"split_special_tokens", true}}),
              HasSubstr("tokenizer_config.json: split_special_tokens = true is not supported"));
  EXPECT_THAT(refusal({{"split_special_tokens", 1}}), HasSubstr("split_special_tokens: true or false expected"));
  // Of this class transformers takes the field, of others the file.
  EXPECT_THAT(refusal({{"tokenizer_class", "GPT2TokenizerFast"}, {"add_prefix_space", true}}),
              HasSubstr("add_prefix_space = true contradicts the tokenizer's own file, which has false"));
  EXPECT_EQ(refusal({{"tokenizer_class", "GPT2TokenizerFast"}, {"add_prefix_space", false}}), "no error");
  EXPECT_EQ(refusal({{"tokenizer_class", "PreTrainedTokenizerFast"}, {"add_prefix_space", true}}), "no error");
  EXPECT_THAT(refusal({{"pad_token", 3}}), HasSubstr("pad_token: a token expected, found 3"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("an object expected"));
  write_file(folder_ / "special_tokens_map.json",
             R"({"eos_token": "<|endoftext|>", "pad_token": {"content": "[PAD]"}})");
  write_file(folder_ / "added_tokens.json", R"({"<|endoftext|>": 699, "[PAD]": 700})");
  EXPECT_EQ(refusal({{"unk_token", "<|endoftext|>"}}), "no error");
  EXPECT_EQ(read_tokenizer_config(folder_.path()).tokens.size(), 5U);
  write_file(folder_ / "added_tokens.json", "[]");
  EXPECT_THAT(refusal(json::object()), HasSubstr("added_tokens.json: an object expected"));
  write_file(folder_ / "added_tokens.json", "{}");
  write_file(folder_ / "tokenizer_config.json", "{");
  EXPECT_THAT(error_message([&] { (void)load_tokenizer(folder_.path()); }), HasSubstr("tokenizer_config.json"));
}

TEST_F(Config, OfOtherFiles) {
  copy("sentencepiece/bpe_bytes.model", "tokenizer.model");
  EXPECT_EQ(refusal({{"add_bos_token", true}, {"add_eos_token", false}, {"legacy", false}}), "no error");
  EXPECT_THAT(load_tokenizer(folder_.path())->tokens_in_front(), ElementsAre(1));
  write({{"add_bos_token", false}});
  EXPECT_TRUE(load_tokenizer(folder_.path())->tokens_in_front().empty());
  EXPECT_THAT(refusal({{"add_eos_token", true}}),
              HasSubstr("add_eos_token = true is not supported next to tokenizer.model"));

  const TemporaryDirectory gpt2;
  json vocabulary = {{"<|endoftext|>", 256}};
  for (int id = 0; const uint8_t byte : byte_level_alphabet())
    vocabulary[to_printable(std::string(1, static_cast<char>(byte)))] = id++;
  write_file(gpt2 / "vocab.json", vocabulary.dump());
  write_file(gpt2 / "merges.txt", "#version: 0.2\n");
  const auto of_gpt2 = [&](const json& config) {
    write_file(gpt2 / "tokenizer_config.json", config.dump());
    return error_message([&] { (void)load_tokenizer(gpt2.path()); });
  };
  EXPECT_EQ(of_gpt2({{"add_prefix_space", false}, {"add_bos_token", false}}), "no error");
  EXPECT_THAT(of_gpt2({{"add_prefix_space", true}}), HasSubstr("add_prefix_space = true contradicts"));
  EXPECT_THAT(of_gpt2({{"add_bos_token", true}}),
              HasSubstr("add_bos_token = true is not supported next to vocab.json"));
}

}  // namespace
}  // namespace partita::internal
