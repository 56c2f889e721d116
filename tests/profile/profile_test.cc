#include "partita/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMillisecond = 1'000'000;

// Two steps of 10 ms; kernels for 9 of them, 2 of which run beside others.
Profile two_steps() {
  Profile profile{.steps = 2, .host = {}, .device = {}};
  for (const int64_t at : {0, 10}) {
    const auto ms = [at](int64_t t) { return 1000 + (at + t) * kMillisecond; };
    profile.host.push_back({"forward block 0", ms(0), ms(1)});
    profile.host.push_back({"forward block 1", ms(1), ms(3)});
    profile.host.push_back({"step", ms(0), ms(10)});
    profile.device.push_back({"nvjet_tst_TNT", DeviceWork::kernel, 7, ms(1), ms(5), 0});
    profile.device.push_back({"ncclDevKernel_AllGather", DeviceWork::kernel, 9, ms(2), ms(4), 0});
    profile.device.push_back({"mystery", DeviceWork::kernel, 7, ms(5), ms(8), 0});
    profile.device.push_back({"copy host to device", DeviceWork::copy, 7, ms(8), ms(10), 4096});
  }
  return profile;
}

StepWork small_work() {
  return {.model = {.layers = 2, .hidden_size = 64, .heads = 2, .vocab_size = 100, .max_length = 32},
          .length = 32,
          .tokens = 64,
          .updated = 1000};
}

TEST(ChromeTrace, HasEverySpanInMicroseconds) {
  const nlohmann::json trace = nlohmann::json::parse(chrome_trace(two_steps()));
  std::map<std::string, int> counts;
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M") continue;
    ++counts[e.at("name")];
    EXPECT_GE(e.at("ts").get<double>(), 0);
    if (e.at("name") == "mystery") {
      EXPECT_EQ(e.at("dur"), 3000.0);
      EXPECT_EQ(e.at("tid"), 7);
      EXPECT_EQ(e.at("cat"), "other");
    }
    if (e.at("name") == "copy host to device") {
      EXPECT_EQ(e.at("args").at("bytes"), 4096);
    }
  }
  EXPECT_EQ(counts.at("step"), 2);
  EXPECT_EQ(counts.at("forward block 1"), 2);
  EXPECT_EQ(counts.at("ncclDevKernel_AllGather"), 2);
  EXPECT_EQ(trace.at("traceEvents")[2].at("ts"), 0.0);
}

TEST(ProfileTable, SharesTheStepAmongFamilies) {
  const std::string table = profile_table(two_steps(), small_work());
  EXPECT_THAT(table,
              AllOf(HasSubstr("2 steps of 10.000 ms, 64 tokens"),
                    ContainsRegex("matmul, forward +4\\.000 +40\\.0% +1\\.0 +0\\.000 +[0-9]"),
                    ContainsRegex("collectives +2\\.000 +20\\.0% +1\\.0\n"),
                    ContainsRegex("copies and fills +2\\.000 +20\\.0%"), ContainsRegex("other +3\\.000 +30\\.0%"),
                    ContainsRegex("nothing ran +1\\.000 +10\\.0%"), ContainsRegex("step +10\\.000 +100\\.0%")));
  EXPECT_THAT(table, HasSubstr("3.000 ms a step, 1.0 calls: mystery"));
  // The largest first.
  EXPECT_LT(table.find("matmul, forward"), table.find("collectives"));
}

TEST(ProfileTable, OfTheCpuShowsWhatTheHostDid) {
  Profile profile = two_steps();
  profile.device.clear();
  const std::string table = profile_table(profile, small_work());
  EXPECT_THAT(table, AllOf(ContainsRegex("forward block +3\\.000 +30\\.0% +2\\.0\n"), Not(HasSubstr("nothing ran")),
                           Not(ContainsRegex("\nstep "))));
}

TEST(ProfileTable, OfNothing) {
  EXPECT_THAT(profile_table({}, small_work()), HasSubstr("0 steps of 0.000 ms"));
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace({})));
}

TEST(Profiler, WritesItsFilesOnceBehindItsSteps) {
  const TemporaryDirectory folder;
  Profiler profiler({.trace = folder / "profile.json",
                     .table = folder / "profile.txt",
                     .steps = 2,
                     .after = 1,
                     .work = small_work()});
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(std::filesystem::exists(folder / "profile.json"), step >= 3) << step;
    EXPECT_EQ(profiler.done(), step >= 3) << step;
    profiler.before_step();
    { const TraceSpan span("forward block", step); }
    profiler.after_step();
  }
  const std::string trace = read_file(folder / "profile.json");
  EXPECT_THAT(trace, AllOf(HasSubstr("forward block 1"), HasSubstr("forward block 2"),
                           Not(HasSubstr("forward block 0")), Not(HasSubstr("forward block 3"))));
  EXPECT_THAT(read_file(folder / "profile.txt"), AllOf(HasSubstr("2 steps of "), HasSubstr("forward block")));
}

TEST(Profiler, OffDoesNothing) {
  Profiler profiler({.trace = "/nowhere/a", .table = "/nowhere/b"});
  EXPECT_TRUE(profiler.done());
  profiler.before_step();
  EXPECT_FALSE(trace::on());
  profiler.after_step();
}

}  // namespace
}  // namespace partita::internal
