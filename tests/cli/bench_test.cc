// What recomputation saves, as `partita bench recompute` shows it: less memory, and the same training to the last bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/process.h"

namespace partita::test {
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

TEST(Bench, WrongShapesAreWrongUsage) {
  for (const char* shape : {"3,2,28,19,3", "3,2,28,19,3,61,7", "3,2,0,19,3,61", "3,2,28,19,3,x", ""}) {
    const Result r = partita({"bench", "recompute", "--shape", shape});
    EXPECT_EQ(r.code, 2) << shape;
    EXPECT_THAT(r.error, HasSubstr("six numbers")) << shape;
  }
  EXPECT_THAT(partita({"bench", "step", "--shape", "1,3,28,19,3,61"}).error, HasSubstr("heads"));
}

}  // namespace
}  // namespace partita::test
