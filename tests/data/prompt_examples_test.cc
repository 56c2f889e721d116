#include "partita/data/prompt_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// No token ends a document.
class EndlessTokenizer : public Tokenizer {
 public:
  [[nodiscard]] std::unique_ptr<Encoder> make_encoder(const EncodeOptions&) const override {
    struct Bytes : Encoder {
      void encode(std::string_view text, std::vector<TokenId>& ids) override {
        ids.insert(ids.end(), text.begin(), text.end());
      }
    };
    return std::make_unique<Bytes>();
  }
  [[nodiscard]] int64_t vocab_size() const override { return 128; }
  [[nodiscard]] std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  [[nodiscard]] std::string_view bytes_of(TokenId) const override { return "?"; }
};

class Prompts : public testing::Test {
 protected:
  PromptExamples read(std::string_view lines, const PromptOptions& options = {}) {
    write_file(folder_ / "a.txt", lines);  // JSON lines by what the caller says, not by the name
    return read_prompts(folder_ / "a.txt", *tokenizer_, options);
  }
  std::string refusal(std::string_view lines, const PromptOptions& options = {}) {
    return error_message([&] { (void)read(lines, options); });
  }
  // "prompt|completion" of an example, decoded.
  std::string text(const PromptExamples& examples, int64_t i) {
    const auto tokens = examples.tokens(i);
    const auto prompt = static_cast<size_t>(examples.prompt_tokens[static_cast<size_t>(i)]);
    return tokenizer_->decode(tokens.first(prompt)) + "|" + tokenizer_->decode(tokens.subspan(prompt));
  }

  TemporaryDirectory folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json");
};

TEST_F(Prompts, CompletionsEndTheDocument) {
  const auto examples = read(
      "{\"prompt\": \"Hello\", \"completion\": \" world\", \"other\": 3}\n"
      "\n"
      "{\"completion\": \"\\u00e9t\\u00e9\", \"prompt\": \"\"}\r\n"
      "{\"prompt\": \"<|endoftext|>\", \"completion\": \"\"}");
  ASSERT_EQ(examples.size(), 3);
  EXPECT_EQ(text(examples, 0), "Hello| world<|endoftext|>");
  EXPECT_EQ(text(examples, 1), "<|endoftext|>|\u00e9t\u00e9<|endoftext|>");
  EXPECT_EQ(text(examples, 2), "<|endoftext|>|<|endoftext|>");
  EXPECT_EQ(examples.prompt_tokens[2], 1);  // its name in a prompt is the token, unless that is switched off
  const auto ordinary =
      read(R"({"prompt": "<|endoftext|>", "completion": ""})", {.specials = {.allow_special = false}});
  EXPECT_EQ(text(ordinary, 0), "<|endoftext|>|<|endoftext|>");
  EXPECT_GT(ordinary.prompt_tokens[0], 1);
  EXPECT_EQ(examples.prompt_tokens[1], 1);
  EXPECT_EQ(examples.tokens(1)[0], *tokenizer_->end_of_document());
}

TEST_F(Prompts, KeysMayBeOthers) {
  const auto examples = read("{\"q\": \"a\", \"r\": \"b\"}\n", {.prompt_key = "q", .completion_key = "r"});
  EXPECT_EQ(text(examples, 0), "a|b<|endoftext|>");
}

TEST_F(Prompts, AnyNumberOfWorkersReadsTheSame) {
  std::string lines;
  for (int i = 0; i < 30000; ++i) {
    lines +=
        nlohmann::json{{"prompt", "number " + std::to_string(i)}, {"completion", std::string(60, 'x')}}.dump() + "\n";
  }
  ASSERT_GT(lines.size(), size_t{2} << 20);  // several chunks
  const auto one = read(lines), three = read(lines, {.workers = 3});
  EXPECT_EQ(one.size(), 30000);
  EXPECT_EQ(one.ids, three.ids);
  EXPECT_EQ(one.begins, three.begins);
  EXPECT_EQ(one.prompt_tokens, three.prompt_tokens);
  EXPECT_EQ(text(one, 29999), "number 29999|" + std::string(60, 'x') + "<|endoftext|>");
}

TEST_F(Prompts, BadFiles) {
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  EXPECT_THAT(refusal(good + "{\"prompt\": \"a\"}\n"), HasSubstr("a.txt:2: byte 35: no key \"completion\""));
  EXPECT_THAT(refusal("{\"prompt\": 3, \"completion\": \"b\"}"),
              HasSubstr("\"prompt\": a string expected, found a number"));
  EXPECT_THAT(refusal(good + "\n[]\n"), HasSubstr("a.txt:3: byte 36: an object expected, found an array"));
  EXPECT_THAT(refusal(good + "{\"prompt\": \"\xFF\"}"), HasSubstr("invalid UTF-8 (0xFF)"));
  EXPECT_THAT(refusal(" \n"), HasSubstr("no examples: lines such as {\"prompt\": \"...\", \"completion\": \"...\"}"));
  EXPECT_THAT(refusal(""), HasSubstr("no examples"));
  EXPECT_THAT(refusal(good, {.prompt_key = "text", .completion_key = "text"}),
              HasSubstr("\"text\" is the key of both"));
  EXPECT_THAT(error_message([&] { (void)read_prompts(folder_ / "none", *tokenizer_, {}); }), HasSubstr("none"));
}

TEST_F(Prompts, WithoutAnEndTokenThereMustBeSomethingToPredict) {
  tokenizer_ = std::make_unique<EndlessTokenizer>();
  EXPECT_THAT(read("{\"prompt\": \"a\", \"completion\": \"b\"}").ids, ElementsAre('a', 'b'));
  EXPECT_THAT(read("{\"prompt\": \"\", \"completion\": \"bc\"}").ids, ElementsAre('b', 'c'));
  EXPECT_THAT(refusal("{\"prompt\": \"ab\", \"completion\": \"\"}"), HasSubstr("example 1: nothing to predict"));
  EXPECT_THAT(refusal("{\"prompt\": \"\", \"completion\": \"b\"}"), HasSubstr("but for the very first token"));
}

TEST(CountedTokens, NeverTheFirst) {
  EXPECT_EQ(counted_tokens(5, 2), 3);
  EXPECT_EQ(counted_tokens(5, 0), 4);
  EXPECT_EQ(counted_tokens(5, 5), 0);
  EXPECT_EQ(counted_tokens(3, 5), 0);
  EXPECT_EQ(counted_tokens(0, 0), 0);
}

}  // namespace
}  // namespace partita::internal
