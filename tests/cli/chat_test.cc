// Chat formats: special tokens spelled in prompts, and tokens that end a text. Models and expected values are from
// transformers 5.24 (random weights; tokens 300 to 302 of tests/golden/chat are <|im_start|>, <|im_end|> and <tool>).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Chat : public ShellTest {
 protected:
  void SetUp() override {
    fs::copy(PARTITA_SOURCE_DIR "/tests/golden/chat", folder_ / "model");
    fs::rename(folder_ / "model/chat.jsonl", folder_ / "chat.jsonl");
  }
};

TEST_F(Chat, MarkersAreTokensInEval) {
  const Result r = shell("partita eval model --data chat.jsonl --sequence-length 64 --json");
  ASSERT_EQ(r.code, 0) << r.error;
  const auto found = nlohmann::json::parse(r.output);
  EXPECT_NEAR(found["loss"].get<double>(), 6.1895474, 1e-5);
  EXPECT_EQ(found["tokens"], 40);
  EXPECT_THAT(r.error, Not(HasSubstr("ordinary text")));
  const Result plain = shell("partita eval model --data chat.jsonl --sequence-length 64 --json --no-allow-special");
  const auto spelled = nlohmann::json::parse(plain.output);
  EXPECT_NEAR(spelled["loss"].get<double>(), 6.0581363, 1e-5);
  EXPECT_EQ(spelled["tokens"], 72);
  EXPECT_THAT(plain.error, HasSubstr("chat.jsonl: 8 texts spell special tokens, such as <|im_start|>, that are read as "
                                     "ordinary text: --allow-special reads them as tokens"));
}

TEST_F(Chat, MarkersAreTokensInTrainingAndItsValidation) {
  const std::string train =
      "printf '[model]\\nfrom = \"model\"\\n[data]\\nformat = \"prompts\"\\npath = \"chat.jsonl\"\\nvalidation = "
      "\"chat.jsonl\"\\n[train]\\nsteps = 1\\nsequence_length = 64\\nmicro_batch = 4\\nglobal_batch = 4\\n"
      "[optimizer]\\nlearning_rate = 1e-30\\nmin_learning_rate = 0\\n[eval]\\nevery = 1\\nbatches = 1\\n' > c.toml\n"
      "partita train c.toml --run.directory=";
  const Result r = shell(train + "run");
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error + r.output, AllOf(HasSubstr("40 tokens count"), HasSubstr("6.189")));
  const Result plain = shell(train + "plain --data.allow_special=false");
  ASSERT_EQ(plain.code, 0) << plain.error;
  EXPECT_THAT(plain.error + plain.output,
              AllOf(HasSubstr("72 tokens count"), HasSubstr("data.allow_special = true reads them as tokens")));
}

TEST_F(Chat, MarkersAreTokensInPromptsOfGenerate) {
  const std::string generate = "partita generate model --greedy --tokens 1 --prompt '<|im_start|>river 0<|im_end|>'";
  EXPECT_THAT(shell(generate).error, HasSubstr("prompt: 7 tokens in"));
  EXPECT_THAT(shell(generate + " --no-allow-special").error,
              AllOf(HasSubstr("the prompt: 1 text spells special tokens"), Not(HasSubstr("prompt: 7 tokens"))));
  // Before the text begins, not within it.
  const std::string both = shell(generate + " --no-allow-special 2>&1").output;
  EXPECT_LT(both.find("spells special tokens"), both.find("<|im_start|>river 0<|im_end|>")) << both;
  EXPECT_THAT(both, testing::ContainsRegex("<\\|im_start\\|>river 0<\\|im_end\\|>[^\n]*\n"));
  // Of another model's format.
  EXPECT_THAT(
      shell("partita generate model --greedy --tokens 1 --prompt '<|eot_id|>'").error,
      HasSubstr("the prompt: 1 text spells markers, such as <|eot_id|>, that are not tokens of this tokenizer"));
  // Longer than the model's 64 positions.
  EXPECT_THAT(shell("partita generate model --greedy --tokens 1 --prompt \"$(yes river | head -n 100)\"").error,
              HasSubstr(" tokens and the model takes 64: it sees only the last 32"));
}

// Its config.json says that token 0 ends a text, its generation_config.json that 0 and 289 do.
TEST_F(Chat, EveryEndOfGenerationConfigEndsAText) {
  fs::copy(PARTITA_SOURCE_DIR "/tests/golden/several_ends", folder_ / "ends");
  const std::string prompt = " --prompt 'river stone' --greedy --tokens 12";
  EXPECT_EQ(shell("partita generate ends" + prompt).output, "river stoneswalwalwalwal\n");
  must("partita import ends imported");
  EXPECT_EQ(shell("partita generate imported" + prompt).output, "river stoneswalwalwalwal\n");
  must("partita export imported exported");
  EXPECT_EQ(shell("partita generate exported" + prompt).output, "river stoneswalwalwalwal\n");
  // How to draw, where nothing is asked for; one line says so.
  must("printf '{\"eos_token_id\": 0, \"do_sample\": false, \"max_new_tokens\": 3}' > ends/generation_config.json");
  const Result r = shell("partita generate ends --prompt 'river stone'");
  EXPECT_EQ(r.output, "river stoneswalwal\n");
  EXPECT_THAT(r.error, HasSubstr("generation_config.json: max_new_tokens 3, do_sample false (greedy)"));
  EXPECT_THAT(shell("partita generate ends --prompt 'river stone' --tokens 2 --temperature 0").error,
              Not(HasSubstr("generation_config.json: ")));
}

TEST_F(Chat, ListsOfMessagesAndMissingTextsAreNamed) {
  must("printf '%s\\n' '{\"messages\": [{\"role\": \"user\"}]}' > messages.jsonl");
  const Result r = shell("partita eval model --data messages.jsonl");
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, AllOf(HasSubstr("no key \"prompt\", found \"messages\": set data.prompt_key"),
                             HasSubstr("lists of chat messages have to be converted")));
}

}  // namespace
}  // namespace partita::internal::test
