// Recomputation in `partita bench recompute`: less memory, and bitwise identical training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "partita/base/file.h"
#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {
namespace {

using testing::HasSubstr;

using namespace std::string_literals;

// A model so small that a step takes milliseconds.
std::vector<std::string> bench(const char* kind, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {"bench",
                                      kind,
                                      "--model.layers=3",
                                      "--model.heads=2",
                                      "--model.hidden_size=28",
                                      "--train.sequence_length=19",
                                      "--train.micro_batch=3",
                                      "--model.vocab_size=61"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class Recompute : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Recompute, SavesMemoryAndChangesNothing) {
  const auto [model, precision] = GetParam();
  const Result r = partita(
      bench("recompute", {"--json", "--model.kind="s + model, "--precision.compute="s + precision,
                          "--model.dropout=0.1", "--model.embedding_dropout=0.1", "--model.attention_dropout=0.1",
                          "--train.global_batch=6", "--steps", "3", "--warmup", "1"}));
  ASSERT_EQ(r.code, 0) << r.error;
  const std::vector<nlohmann::json> lines = json_lines(r.output);
  ASSERT_EQ(lines.size(), 4U) << r.output;
  const char* names[] = {"none", "selective", "mlp", "full"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i].at("recompute"), names[i]);
    EXPECT_EQ(lines[i].at("model"), model);
    EXPECT_GT(lines[i].at("ms"), 0.0);
    EXPECT_EQ(lines[i].at("state_bytes"), lines[0].at("state_bytes"));
    EXPECT_EQ(lines[i].at("loss_first"), lines[0].at("loss_first"));
    EXPECT_EQ(lines[i].at("loss_last"), lines[0].at("loss_last"));
    EXPECT_EQ(lines[i].at("saved_bytes").get<int64_t>(),
              lines[0].at("activation_bytes").get<int64_t>() - lines[i].at("activation_bytes").get<int64_t>());
    if (i > 0) {
      EXPECT_LT(lines[i].at("activation_bytes"), lines[i - 1].at("activation_bytes"));
    }
  }
  EXPECT_NE(lines[0].at("loss_first"), lines[0].at("loss_last"));
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         testing::Combine(testing::Values("gpt2", "llama"), testing::Values("fp32", "bf16")));

TEST(Bench, StepSaysHowFastInBothConventions) {
  const Result r = partita(bench(
      "step", {"--model.ffn_hidden_size=40", "--memory.recompute_full_layers=1", "--steps", "2", "--warmup", "1"}));
  ASSERT_EQ(r.code, 0) << r.error;
  const nlohmann::json line = json_lines(r.output).at(0);
  // Matrices, biases and norms of the layers; head; last norm.
  const int64_t n = 3 * ((4 * 28 * 28 + 2 * 28 * 40) + (3 * 28 + 28 + 40 + 28) + 4 * 28) + 28 * 61 + 2 * 28;
  const double rate = line.at("tokens_per_s_rank");
  EXPECT_NEAR(line.at("tflops_full").get<double>() / rate * 1e12, 6.0 * n + 12 * 3 * 28 * 19, 1);
  EXPECT_NEAR(line.at("tflops_causal").get<double>() / rate * 1e12, 6.0 * n + 6 * 3 * 28 * 19, 1);
  EXPECT_EQ(line.at("recompute_full_layers"), 1);
  EXPECT_FALSE(line.contains("card"));
  EXPECT_GT(line.at("first_step_s"), 0.0);
  EXPECT_LT(line.at("first_step_s"), 60.0);
}

TEST(Bench, OffloadOnTheCpuIsAnError) {
  for (const char* setting : {"--memory.optimizer=host", "--memory.offload_activations=3"}) {
    const Result r = partita(bench("step", {setting}));
    EXPECT_EQ(r.code, 1);
    EXPECT_THAT(r.error, HasSubstr("everything is in host memory already"));
  }
}

TEST(Bench, SettingsThatDoNotFitAreErrors) {
  const auto error = [](const char* setting) {
    const Result r = partita(bench("step", {setting}));
    EXPECT_EQ(r.code, 1) << r.output;
    return r.error;
  };
  EXPECT_THAT(error("--memory.recompute_full_layers=4"),
              HasSubstr("recompute_full_layers is 4, the model has 3 layers"));
  EXPECT_THAT(error("--memory.offload_activations=4"), HasSubstr("offload_activations is 4, the model has 3 layers"));
  EXPECT_THAT(error("--precision.states=bf16"), HasSubstr("states in bf16 need compute in bf16"));
  EXPECT_THAT(error("--precision.fp8=current"), HasSubstr("FP8 matrix products need"));
  EXPECT_THAT(error("--kernels.tune_matmul=true"), HasSubstr("kernels.tune_matmul is true on the CPU"));
  EXPECT_THAT(error("--model.heads=3"), HasSubstr("heads"));
}

TEST(Bench, TakesAFileSettingsAndDefaults) {
  const TemporaryDirectory folder;
  write_file(folder / "c.toml",
             "[model]\nlayers = 1\nhidden_size = 12\nheads = 3\nvocab_size = 50\nmax_length = 32\n"
             "[train]\nsequence_length = 16\nmicro_batch = 2\nglobal_batch = 8\n");
  const std::vector<std::string> end = {"--steps", "1", "--warmup", "0"};
  std::vector<std::string> command = {"bench", "step", (folder / "c.toml").string(), "--model.layers=2"};
  command.insert(command.end(), end.begin(), end.end());
  Result r = partita(command);
  ASSERT_EQ(r.code, 0) << r.error;
  nlohmann::json line = json_lines(r.output).at(0);
  EXPECT_EQ(line.at("layers"), 2);
  EXPECT_EQ(line.at("hidden_size"), 12);
  EXPECT_EQ(line.at("global_batch"), 8);
  EXPECT_THAT(r.error, HasSubstr("timing gpt2, 2 layers of 12 channels, 8 samples of 16 tokens a step, on 1 rank, ZeRO "
                                 "stage 0, fp32: 0 warm-up and 1 timed step\n"));
  // Without a file: one micro-batch per rank.
  command = {"launch",
             "-n",
             "2",
             "--",
             "bench",
             "step",
             "--model.layers=1",
             "--model.hidden_size=12",
             "--model.heads=3",
             "--train.micro_batch=3",
             "--train.sequence_length=2000",
             "--model.vocab_size=50"};
  command.insert(command.end(), end.begin(), end.end());
  r = partita(command);
  ASSERT_EQ(r.code, 0) << r.error;
  line = json_lines(r.output).at(0);
  EXPECT_EQ(line.at("global_batch"), 6);
  EXPECT_EQ(line.at("sequence_length"), 2000);  // beyond the default of model.max_length
}

TEST(Bench, UnknownKeysAreWrongUsage) {
  for (const char* kind : {"step", "recompute"}) {
    const Result r = partita(bench(kind, {"--model.layer=3"}));
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.error, HasSubstr("did you mean 'model.layers'?"));
  }
}

TEST(Bench, StreamsThatAreLateAndPoisonChangeNothing) {
  std::vector<std::string> plain = bench("step", {"--parallel.zero_stage=3", "--steps", "3", "--warmup", "1"});
  plain.insert(plain.begin(), {"launch", "-n", "2", "--"});
  std::vector<std::string> late = plain;
  late.insert(late.end(), {"--debug.poison=true", "--debug.delay_streams=3000"});
  const Result a = partita(plain), b = partita(late);
  ASSERT_EQ(a.code, 0) << a.error;
  ASSERT_EQ(b.code, 0) << b.error;
  const nlohmann::json of_plain = json_lines(a.output).at(0), of_late = json_lines(b.output).at(0);
  EXPECT_EQ(of_plain.at("loss_last"), of_late.at("loss_last"));
  EXPECT_NE(of_plain.at("loss_last"), of_plain.at("loss_first"));
  EXPECT_GT(of_late.at("ms"), 1.5 + of_plain.at("ms").get<double>());  // they were late
}

TEST(BenchStep, NamesWhatTensorRanksReplicate) {
  const auto plan_of = [](const std::vector<std::string>& launch, const std::vector<std::string>& more) {
    std::vector<std::string> command = launch, rest = bench("step", {"--steps", "1", "--warmup", "0"});
    command.insert(command.end(), rest.begin(), rest.end());
    command.insert(command.end(), more.begin(), more.end());
    const Result r = partita(command);
    EXPECT_EQ(r.code, 0) << r.error;
    return json_lines(r.output).at(0).at("plan");
  };
  const std::vector<std::string> two = {"launch", "-n", "2", "--"};
  EXPECT_EQ(plan_of({}, {}), "");
  EXPECT_EQ(plan_of(two, {"--parallel.tensor=2"}), "");
  EXPECT_EQ(
      plan_of(two, {"--parallel.tensor=2", "--parallel.plan={'embedding' = 'replicate', 'layers.1' = 'replicate'}"}),
      "embedding, head, attention of layer 1, MLP of layer 1");
}

TEST(BenchStep, RunsOnPiecesOfSequences) {
  const auto line_of = [](const std::vector<std::string>& launch, const std::string& context) {
    std::vector<std::string> command = launch;
    for (const std::string& argument : bench(
             "step", {"--train.sequence_length=20", "--parallel.context=" + context, "--steps", "2", "--warmup", "1"}))
      command.push_back(argument);
    const Result r = partita(command);
    EXPECT_EQ(r.code, 0) << r.error;
    return json_lines(r.output).at(0);
  };
  const nlohmann::json one = line_of({}, "1"), two = line_of({"launch", "-n", "2", "--"}, "2");
  EXPECT_EQ(one.at("context"), 1);
  EXPECT_EQ(two.at("context"), 2);
  EXPECT_EQ(two.at("global_batch"), one.at("global_batch"));
  EXPECT_NEAR(two.at("loss_last").get<double>(), one.at("loss_last").get<double>(), 1e-5);
}

}  // namespace
}  // namespace partita::internal::test
