#include "partita/tokenizer/formats/gpt2_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "partita/tokenizer/bpe/bpe.h"
#include "partita/tokenizer/formats/tokenizer_json.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

class Gpt2Files : public testing::Test {
 protected:
  void SetUp() override { save_gpt2_files(model_, vocab_, merges_); }

  std::string refusal() {
    return error_message([&] { return load_gpt2_files(vocab_, merges_); });
  }

  TemporaryDirectory folder_;
  std::filesystem::path vocab_ = folder_ / "vocab.json", merges_ = folder_ / "merges.txt";
  BpeModel model_ = load_tokenizer_json(PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json");
};

TEST_F(Gpt2Files, WhatIsSavedLoadsAgain) {
  const BpeModel loaded = load_gpt2_files(vocab_, merges_);
  EXPECT_EQ(loaded.tokens, model_.tokens);
  EXPECT_EQ(loaded.merges, model_.merges);
  EXPECT_EQ(loaded.special, model_.special);
  EXPECT_EQ(load_tokenizer(folder_.path())->end_of_document(), 699);
  EXPECT_EQ(load_tokenizer(vocab_)->encode("The licence"), ByteLevelBpe(model_).encode("The licence"));
}

TEST_F(Gpt2Files, OtherSpecialTokensAreNotLostSilently) {
  const std::string before = read_file(vocab_);
  model_.tokens.emplace_back("<pad>");
  model_.special.push_back(700);
  EXPECT_THAT(error_message([&] { save_gpt2_files(model_, vocab_, merges_); }),
              HasSubstr("do not say that \"<pad>\" is special"));
  EXPECT_EQ(read_file(vocab_), before);
  EXPECT_EQ(error_message([] { check_special_for_gpt2_files({"<|endoftext|>"}); }), "no error");
}

TEST_F(Gpt2Files, TheVersionLineIsOptionalAndLineEndsMayBeWindows) {
  std::string text = read_file(merges_);
  ASSERT_THAT(text, testing::StartsWith("#version"));
  text.erase(0, text.find('\n') + 1);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\r\n");
  write_file(merges_, text);
  EXPECT_EQ(load_gpt2_files(vocab_, merges_).merges, model_.merges);
}

TEST_F(Gpt2Files, NamesWhatIsWrong) {
  write_file(merges_, "#version: 0.2\na b c\n");
  EXPECT_THAT(refusal(), HasSubstr("merges.txt: line 2: two tokens with a space between them expected"));
  write_file(merges_, "Ġ zzz\n");
  EXPECT_THAT(refusal(), HasSubstr("merges.txt: merge 1 (\"Ġ\" \"zzz\"): \"zzz\" is not in the vocabulary"));
  write_file(vocab_, "[1]");
  EXPECT_THAT(refusal(), HasSubstr("vocab.json: an object {token: id} expected, found array"));
  write_file(vocab_, "{\"a\": \"b\"}");
  EXPECT_THAT(refusal(), HasSubstr("vocab.json: \"a\": an integer expected"));
  std::filesystem::remove(merges_);
  save_gpt2_files(model_, vocab_, folder_ / "elsewhere.txt");
  EXPECT_THAT(refusal(), HasSubstr("merges.txt"));
}

}  // namespace
}  // namespace partita::internal
