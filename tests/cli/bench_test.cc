// Recomputation in `partita bench recompute`: less memory, and bitwise identical training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

namespace partita::internal::test {
namespace {

using testing::HasSubstr;

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class Recompute : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Recompute, SavesMemoryAndChangesNothing) {
  const auto [model, precision] = GetParam();
  const Result r =
      partita({"bench", "recompute", "--json", "--model", model, "--precision", precision, "--shape", "3,2,28,19,3,61",
               "--dropout", "0.1", "--micro-batches", "2", "--steps", "3", "--warmup", "1"});
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
  const Result r = partita({"bench", "step", "--shape", "2,2,28,19,3,61", "--ffn", "40", "--recompute-full-layers", "1",
                            "--steps", "2", "--warmup", "1"});
  ASSERT_EQ(r.code, 0) << r.error;
  const nlohmann::json line = json_lines(r.output).at(0);
  // Matrices, biases and norms of the layers; head; last norm.
  const int64_t n = 2 * ((4 * 28 * 28 + 2 * 28 * 40) + (3 * 28 + 28 + 40 + 28) + 4 * 28) + 28 * 61 + 2 * 28;
  const double rate = line.at("tokens_per_s_rank");
  EXPECT_NEAR(line.at("tflops_full").get<double>() / rate * 1e12, 6.0 * n + 12 * 2 * 28 * 19, 1);
  EXPECT_NEAR(line.at("tflops_causal").get<double>() / rate * 1e12, 6.0 * n + 6 * 2 * 28 * 19, 1);
  EXPECT_EQ(line.at("recompute_full_layers"), 1);
  EXPECT_FALSE(line.contains("card"));
  EXPECT_GT(line.at("first_step_s"), 0.0);
  EXPECT_LT(line.at("first_step_s"), 60.0);
}

TEST(Bench, OffloadOnTheCpuIsAnError) {
  for (const auto& [option, value] : {std::pair("--offload-optimizer", ""), std::pair("--offload-activations", "3")}) {
    std::vector<std::string> command = {"bench", "step", "--shape", "3,2,28,19,3,61", option};
    if (*value != 0) command.emplace_back(value);
    const Result r = partita(command);
    EXPECT_NE(r.code, 0);
    EXPECT_THAT(r.error, HasSubstr("everything is in host memory already"));
  }
}

TEST(Bench, OptionsThatDoNotFitAreSaid) {
  const auto error = [](std::vector<std::string> more) {
    std::vector<std::string> command = {"bench", "step", "--shape", "3,2,28,19,3,61"};
    command.insert(command.end(), more.begin(), more.end());
    const Result r = partita(command);
    EXPECT_EQ(r.code, 1) << r.output;
    return r.error;
  };
  EXPECT_THAT(error({"--recompute-full-layers", "4"}), HasSubstr("recompute_full_layers is 4, the model has 3 layers"));
  EXPECT_THAT(error({"--offload-activations", "4"}), HasSubstr("offload_activations is 4, the model has 3 layers"));
  EXPECT_THAT(error({"--states", "bf16"}), HasSubstr("states in bf16 need compute in bf16"));
  EXPECT_THAT(error({"--fp8", "current"}), HasSubstr("FP8 matrix products need"));
  EXPECT_THAT(error({"--tune"}), HasSubstr("--tune on the CPU"));
}

TEST(Bench, StreamsThatAreLateAndPoisonChangeNothing) {
  const std::vector<std::string> plain = {"launch",         "-n",     "2", "--",      "bench", "step",     "--shape",
                                          "3,2,28,19,2,61", "--zero", "3", "--steps", "3",     "--warmup", "1"};
  std::vector<std::string> late = plain;
  late.insert(late.end(), {"--poison", "--delay-streams", "3000"});
  const Result a = partita(plain), b = partita(late);
  ASSERT_EQ(a.code, 0) << a.error;
  ASSERT_EQ(b.code, 0) << b.error;
  const nlohmann::json of_plain = json_lines(a.output).at(0), of_late = json_lines(b.output).at(0);
  EXPECT_EQ(of_plain.at("loss_last"), of_late.at("loss_last"));
  EXPECT_NE(of_plain.at("loss_last"), of_plain.at("loss_first"));
  EXPECT_GT(of_late.at("ms"), 1.5 + of_plain.at("ms").get<double>());  // they were late
}

TEST(Bench, WrongShapesAreWrongUsage) {
  for (const char* shape : {"3,2,28,19,3", "3,2,28,19,3,61,7", "3,2,0,19,3,61", "3,2,28,19,3,x", ""}) {
    const Result r = partita({"bench", "recompute", "--shape", shape});
    EXPECT_EQ(r.code, 2) << shape;
    EXPECT_THAT(r.error, HasSubstr("six numbers")) << shape;
  }
  EXPECT_THAT(partita({"bench", "step", "--shape", "1,3,28,19,3,61"}).error, HasSubstr("heads"));
}

}  // namespace
}  // namespace partita::internal::test
