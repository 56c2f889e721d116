// Every precision on every instruction set available on this machine: training, evaluation, generation and benchmarks
// run, and their losses agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/small_run.h"

namespace partita::internal::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// PARTITA_MAX_ISA; "": no limit.
constexpr const char* kSets[] = {"", "avx512", "avx2", "baseline"};

Result partita_on(const char* set, std::vector<std::string> arguments) {
  std::map<std::string, std::string> environment = {{"OMP_NUM_THREADS", "1"}};
  if (*set != '\0') environment["PARTITA_MAX_ISA"] = set;
  return Process(command_line(std::move(arguments)), environment).end(seconds(120));
}

bool has_bf16_instructions(const char* set) { return *set == '\0' && __builtin_cpu_supports("avx512bf16") != 0; }

// First and last loss of some steps on random tokens.
std::pair<double, double> losses(const char* set, const char* model, const char* precision) {
  const Result r = partita_on(
      set, {"bench", "step", std::string("--model.kind=") + model, std::string("--precision.compute=") + precision,
            "--model.layers=2", "--model.heads=4", "--model.hidden_size=64", "--train.sequence_length=40",
            "--train.micro_batch=3", "--model.vocab_size=101", "--steps", "5", "--warmup", "1"});
  EXPECT_EQ(r.code, 0) << r.error;
  const nlohmann::json line = nlohmann::json::parse(r.output, nullptr, false);
  if (!line.is_object()) return {0, 0};
  return {line.at("loss_first"), line.at("loss_last")};
}

// Losses near 4.6. Sums in another order change them by 3e-8 in fp32; bf16's rounding by 2e-4, fp16's by 3e-5 here.
TEST(Precision, LossesAgreeOnEveryInstructionSet) {
  for (const char* model : {"gpt2", "llama"}) {
    const auto [first, last] = losses("", model, "fp32");
    EXPECT_GT(first, last);
    for (const char* set : kSets)
      for (const auto& [precision, tolerance] : {std::pair("fp32", 1e-6), {"bf16", 1e-3}, {"fp16", 2e-4}}) {
        SCOPED_TRACE(testing::Message() << model << " in " << precision << " on '" << set << "'");
        const auto [found_first, found_last] = losses(set, model, precision);
        EXPECT_NEAR(found_first, first, tolerance);
        EXPECT_NEAR(found_last, last, tolerance);
      }
  }
}

TEST(Precision, Bf16TrainsEvaluatesAndGeneratesOnEveryInstructionSet) {
  double native_loss = -1;
  for (const char* set : kSets) {
    SCOPED_TRACE(set);
    const TemporaryDirectory folder;
    const std::filesystem::path run = folder / "run";
    const Result trained =
        partita_on(set, train_command(1, run, {"--precision.compute=bf16", "--model.hidden_size=32"}));
    ASSERT_EQ(trained.code, 0) << trained.error;
    const auto said = HasSubstr("this CPU has no bf16 instructions");
    EXPECT_THAT(trained.output + trained.error,
                has_bf16_instructions(set) ? testing::Matcher<std::string>(Not(said)) : said);
    double loss[2] = {};
    for (const bool half : {false, true}) {
      const Result r = partita_on(set, {"eval", run.string(), "--data", SmallRun::get().prefix().string(), "--batches",
                                        "4", "--json", "--precision", half ? "bf16" : "fp32"});
      ASSERT_EQ(r.code, 0) << r.error;
      loss[half ? 1 : 0] = nlohmann::json::parse(r.output).at("loss");
    }
    EXPECT_NEAR(loss[1], loss[0], 0.01);
    if (native_loss < 0) native_loss = loss[0];
    EXPECT_NEAR(loss[0], native_loss, 0.05);  // twelve updates in bf16 apart
    const Result generated = partita_on(
        set, {"generate", run.string(), "--prompt", "the river", "--tokens", "20", "--greedy", "--precision", "bf16"});
    ASSERT_EQ(generated.code, 0) << generated.error;
    EXPECT_TRUE(generated.output.starts_with("the river"));
  }
}

TEST(Precision, UnknownLimitsAreRefused) {
  const Result r = partita_on("avx3", {"bench", "step", "--model.layers=1", "--steps", "1", "--warmup", "0"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.error, AllOf(HasSubstr("PARTITA_MAX_ISA is 'avx3'"), HasSubstr("baseline, avx2, avx512")));
}

}  // namespace
}  // namespace partita::internal::test
