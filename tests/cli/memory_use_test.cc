// A run's memory as it was planned and as it was measured, over a covering array of what changes it.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/cli/small_run.h"
#include "tests/support/covering.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {
namespace {

using nlohmann::json;

// Runs of 100 to 350 MiB; two steps.
const std::vector<std::string> kModel = {
    "--model.layers=6",       "--model.hidden_size=384", "--model.heads=6",
    "--model.max_length=256", "--model.vocab_size=8192", "--train.sequence_length=256",
    "--train.steps=2",        "--eval.every=0",          "--checkpoint.every=0"};

struct Setting {
  const char* key;
  std::vector<const char*> values;
};

TEST(MemoryUse, OfTheProcessIsThePlanAndAMargin) {
  const std::vector<Setting> settings = {
      {"--precision.compute", {"fp32", "bf16"}}, {"--memory.recompute", {"none", "full"}},
      {"zero", {"1 rank", "0", "1", "2", "3"}},  {"--memory.optimizer", {"device", "disk:0.5"}},
      {"--train.micro_batch", {"2", "1"}},
  };
  std::vector<int> sizes;
  for (const Setting& s : settings) sizes.push_back(static_cast<int>(s.values.size()));
  int tried = 0;
  for (const std::vector<int>& row : partita::test::cover_pairs(sizes)) {
    const auto value = [&](size_t i) { return std::string(settings[i].values[static_cast<size_t>(row[i])]); };
    std::vector<std::string> overrides = kModel;
    const int ranks = row[2] == 0 ? 1 : 2;
    if (ranks > 1) overrides.push_back("--parallel.zero_stage=" + value(2));
    for (const size_t i : std::initializer_list<size_t>{0, 1, 3, 4})
      overrides.push_back(settings[i].key + ("=" + value(i)));
    // Two micro-batches, where these are of one sample on two ranks.
    overrides.emplace_back("--train.global_batch=4");
    const TemporaryDirectory folder;
    const Result r = partita(train_command(ranks, folder / "run", overrides));
    std::string what = r.error.substr(std::min(r.error.size(), r.error.find("Memory per rank"))) + " of ";
    for (size_t i = 0; i < settings.size(); ++i) what += value(i) + " ";
    ASSERT_EQ(r.code, 0) << what << r.error;
    const json use = json::parse(read_file(folder / "run" / "memory.json"));
    const auto planned = use["planned"].get<double>(), measured = use["measured"].get<double>();
    EXPECT_GT(planned, 60e6) << what;
    // What is saved is larger than 32 MiB: it goes through two buffers of 4 MiB.
    EXPECT_EQ(use["saving"], 8 << 20) << what;
    EXPECT_LE(measured, planned + use["saving"].get<double>() + use["margin"].get<double>()) << what;
    // Buffers of sums over ranks are planned as if all were on their way at the same time.
    EXPECT_GE(measured, (ranks == 1 ? 0.99 : 0.85) * planned) << what;
    EXPECT_THAT(r.error + r.output,
                testing::ContainsRegex("Memory per rank: [0-9.]+ MiB planned, [0-9.]+ MiB measured"));
    EXPECT_THAT(r.error + r.output, testing::Not(testing::HasSubstr("beyond the margin")));
    std::vector<std::string> plan = train_command(1, folder / "run", overrides);
    plan[0] = "plan";
    plan.insert(plan.end(), {"--json", "--ranks", std::to_string(ranks)});
    const Result p = partita(plan);
    ASSERT_EQ(p.code, 0) << p.error;
    EXPECT_EQ(json::parse(p.output)["stages"][0]["device"], use["planned"]) << what;
    EXPECT_EQ(use["reserved"], nullptr);
    ++tried;
  }
  EXPECT_GE(tried, 10);
}

}  // namespace
}  // namespace partita::internal::test
