// partita eval and generate on a run: the results match the run's own, for any batch size and number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class Eval : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryDirectory>();
    std::string lines;
    for (int i = 0; i < 12; ++i)
      lines += fmt::format("{{\"prompt\": \"{} stones\", \"completion\": \" and {} rivers\"}}\n", i, i * i * i);
    write_file(*folder_ / "valid.jsonl", lines);
    const Result r = partita(train_command(1, run(), {"--checkpoint.every=0"}));
    ASSERT_EQ(r.code, 0) << r.error;
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static fs::path run() { return *folder_ / "run"; }
  static std::string prompts() { return (*folder_ / "valid.jsonl").string(); }

  static Result eval(const std::vector<std::string>& arguments, int ranks = 1) {
    std::vector<std::string> command;
    if (ranks > 1) command = {"launch", "-n", std::to_string(ranks), "--"};
    command.insert(command.end(), {"eval", run().string()});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return partita(command);
  }
  static nlohmann::json json(std::vector<std::string> arguments, int ranks = 1) {
    arguments.emplace_back("--json");
    const Result r = eval(arguments, ranks);
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_EQ(std::count(r.output.begin(), r.output.end(), '\n'), 1) << r.output;
    return nlohmann::json::parse(r.output);
  }

  static inline std::unique_ptr<TemporaryDirectory> folder_;
};

TEST_F(Eval, BatchesAndRanksDoNotMatter) {
  const std::string prefix = SmallRun::get().prefix().string();
  const nlohmann::json one = json({"--data", prefix});
  const Result listed = partita({"dataset", "inspect", prefix, "--documents", "0"});
  EXPECT_THAT(listed.output, HasSubstr(fmt::format(" {} tokens of", one.at("tokens").get<int64_t>() + 1)));
  EXPECT_EQ(one.at("samples"), (one.at("tokens").get<int64_t>() + 31) / 32);
  EXPECT_LT(one.at("loss").get<double>(), std::log(300.0) - 0.3);  // it has learnt something
  EXPECT_NEAR(one.at("perplexity"), std::exp(one.at("loss").get<double>()), 1e-9);
  for (const int ranks : {2, 3}) {
    const nlohmann::json several = json({"--data", prefix, "--zero-stage", ranks == 2 ? "0" : "3"}, ranks);
    EXPECT_NEAR(several.at("loss"), one.at("loss"), 1e-12);
    EXPECT_EQ(several.at("tokens"), one.at("tokens"));
    EXPECT_EQ(several.at("samples"), one.at("samples"));
  }
  const nlohmann::json large = json({"--data", prefix, "--micro-batch", "7"});
  EXPECT_NEAR(large.at("loss"), one.at("loss"), 1e-6);
  EXPECT_EQ(large.at("tokens"), one.at("tokens"));
  const nlohmann::json narrow = json({"--data", prefix, "--sequence-length", "3"});
  EXPECT_EQ(narrow.at("tokens"), one.at("tokens"));
  EXPECT_EQ(narrow.at("samples"), (one.at("tokens").get<int64_t>() + 2) / 3);
  EXPECT_GT(std::abs(narrow.at("loss").get<double>() - one.at("loss").get<double>()), 1e-6);
}

TEST_F(Eval, AFewBatchesAreTheFirst) {
  const std::string prefix = SmallRun::get().prefix().string();
  const nlohmann::json few = json({"--data", prefix, "--micro-batch", "2", "--batches", "3"});
  EXPECT_EQ(few.at("samples"), 6);
  EXPECT_EQ(few.at("tokens"), 6 * 32);
  const nlohmann::json same = json({"--data", prefix, "--micro-batch", "3", "--batches", "2"}, 2);
  EXPECT_EQ(same.at("tokens"), 6 * 32);
  EXPECT_NEAR(same.at("loss"), few.at("loss"), 1e-6);
}

// The loss that training itself reports for the same examples.
TEST_F(Eval, PromptsAreThoseOfValidation) {
  const fs::path tuned = *folder_ / "tuned";
  const Result r = partita({"train", SmallRun::get().config(), run_in(tuned), "--data.format=prompts",
                            "--data.path=" + prompts(), "--data.validation=" + prompts(), "--train.steps=2"});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.error, HasSubstr("train: 12 examples in 12 samples of 32 tokens"));
  std::istringstream lines(read_file(tuned / "validation.jsonl"));
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  const Result e = partita({"eval", tuned.string(), "--data", prompts(), "--json"});
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_NEAR(nlohmann::json::parse(e.output).at("loss"), nlohmann::json::parse(last).at("loss").get<double>(), 1e-6);
}

TEST_F(Eval, SaysWhatItDid) {
  const Result r = eval({"--data", prompts()});
  ASSERT_EQ(r.code, 0) << r.error;
  EXPECT_THAT(r.output, AllOf(HasSubstr("loss "), HasSubstr("perplexity "), HasSubstr(" samples of " + prompts())));
  EXPECT_THAT(r.error, ContainsRegex("12 examples in [4-9] samples of 32 tokens"));  // packed
}

TEST_F(Eval, Refuses) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const Result r = eval(arguments);
    EXPECT_NE(r.code, 0);
    return r.error;
  };
  EXPECT_THAT(error({"--data", prompts(), "--sequence-length", "33"}),
              HasSubstr("a sequence length of 33: the model takes 1 to 32"));
  EXPECT_THAT(error({"--data", "nowhere/data"}), HasSubstr("nowhere/data"));
  EXPECT_THAT(error({"--data", prompts(), "--prompt-key", "question"}), HasSubstr("no key \"question\""));
  EXPECT_THAT(error({"--data", prompts(), "--tokenizer", PARTITA_SOURCE_DIR "/tests/golden/tokenizer.json"}),
              HasSubstr("use the tokenizer it was trained with"));
  EXPECT_THAT(error({}), HasSubstr("--data"));
  const Result nothing = partita({"eval", (*folder_ / "nothing").string(), "--data", prompts()});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_THAT(nothing.error, HasSubstr("nothing"));
}

TEST_F(Eval, GenerationIsRepeatableAndTimed) {
  const std::vector<std::string> command = {"generate", run().string(), "--prompt", "the river",
                                            "--tokens", "50",           "--seed",   "3"};
  const Result one = partita(command), two = partita(command);
  ASSERT_EQ(one.code, 0) << one.error;
  EXPECT_EQ(one.output, two.output);
  EXPECT_THAT(one.output, testing::StartsWith("the river"));
  EXPECT_GT(one.output.size(), 20U);
  EXPECT_THAT(one.error,
              testing::ContainsRegex("prompt: [0-9]+ tokens in [0-9.]+ s; generated 50 tokens at [0-9.]+ tokens/s"));
}

// What the tokenizer's file puts in front of a text is put in front of a prompt, unless that is switched off.
TEST_F(Eval, GenerationAddsSpecialTokens) {
  nlohmann::json file = nlohmann::json::parse(read_file(SmallRun::get().tokenizer()));
  const nlohmann::json end = file.at("added_tokens").at(0);
  const nlohmann::json special = {{"SpecialToken", {{"id", end.at("content")}, {"type_id", 0}}}};
  const nlohmann::json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const std::string name = end.at("content");
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {special, text}},
                            {"pair", {text, text}},
                            {"special_tokens", {{name, {{"id", name}, {"ids", {end.at("id")}}, {"tokens", {name}}}}}}};
  const fs::path changed = *folder_ / "with_special.json";
  write_file(changed, file.dump());
  const auto prompt_tokens = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"generate", run().string(), "--prompt", "the river", "--tokens", "1"};
    command.insert(command.end(), more.begin(), more.end());
    const Result r = partita(command);
    EXPECT_EQ(r.code, 0) << r.error;
    EXPECT_THAT(r.error, HasSubstr("; generated 1 token\n")) << "no rate of one token, whose time is the prompt's";
    const std::string mark = "prompt: ";
    return std::stoi(r.error.substr(r.error.find(mark) + mark.size()));
  };
  const int plain = prompt_tokens({});
  EXPECT_EQ(prompt_tokens({"--tokenizer", changed.string()}), plain + 1);
  EXPECT_EQ(prompt_tokens({"--tokenizer", changed.string(), "--no-add-special"}), plain);
}

}  // namespace
}  // namespace partita::internal::test
