#include "partita/monitor/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

StepMetrics step(int64_t number) {
  return {.step = number,
          .consumed_samples = 32 * number,
          .loss = 10.0 / 3 / static_cast<double>(number),
          .grad_norm = 0.1F,
          .learning_rate = 6e-4,
          .seconds = 0.25,
          .tokens = 1000,
          .memory_peak = number << 33};
}

void write_steps(const std::filesystem::path& path, int64_t first, int64_t last, int64_t resumed) {
  MetricsFile file(path, resumed);
  for (int64_t i = first; i <= last; ++i) file.append(to_json(step(i)));
}

TEST(MetricsFile, AStepIsALineOfJson) {
  const auto json = nlohmann::json::parse(to_json(step(3)));
  EXPECT_EQ(json.at("step"), 3);
  EXPECT_EQ(json.at("consumed_samples"), 96);
  EXPECT_EQ(json.at("loss"), 10.0 / 3 / 3);
  EXPECT_EQ(json.at("grad_norm"), static_cast<double>(0.1F));
  EXPECT_EQ(json.at("lr"), 6e-4);
  EXPECT_EQ(json.at("tokens_per_second"), 4000.0);
  EXPECT_EQ(json.at("seconds"), 0.25);
  EXPECT_THAT(to_json(step(3)), ::testing::Not(HasSubstr("\n")));
}

TEST(MetricsFile, ReadsBackTheSameBits) {
  const TemporaryDirectory folder;
  std::mt19937_64 random(5);
  std::vector<StepMetrics> written;
  {
    MetricsFile file(folder / "metrics.jsonl", 0);
    for (int64_t i = 1; i <= 500; ++i) {
      StepMetrics s = step(i);
      s.loss = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 200) - 150);
      s.seconds = static_cast<double>(random() >> 11) * 1e-16;
      file.append(to_json(s));
      written.push_back(s);
    }
  }
  const std::vector<StepMetrics> read = read_steps(folder / "metrics.jsonl");
  ASSERT_EQ(read.size(), written.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].step, written[i].step);
    EXPECT_EQ(read[i].loss, written[i].loss);
    EXPECT_EQ(read[i].seconds, written[i].seconds);
    EXPECT_EQ(read[i].tokens, written[i].tokens);
    EXPECT_EQ(read[i].memory_peak, written[i].memory_peak);
  }
}

TEST(MetricsFile, EachLineIsThereAtOnce) {
  const TemporaryDirectory folder;
  MetricsFile file(folder / "metrics.jsonl", 0);
  for (int64_t i = 1; i <= 3; ++i) {
    file.append(to_json(step(i)));
    EXPECT_EQ(read_steps(folder / "metrics.jsonl").size(), static_cast<size_t>(i));
  }
}

TEST(MetricsFile, ResumingGivesTheFileOfARunWithoutAStop) {
  const TemporaryDirectory folder;
  write_steps(folder / "whole.jsonl", 1, 20, 0);
  write_steps(folder / "parts.jsonl", 1, 13, 0);  // stopped at 13, its last checkpoint was of step 10
  write_steps(folder / "parts.jsonl", 11, 20, 10);
  EXPECT_EQ(read_file(folder / "parts.jsonl"), read_file(folder / "whole.jsonl"));
  write_steps(folder / "parts.jsonl", 1, 20, 0);  // from the beginning
  EXPECT_EQ(read_file(folder / "parts.jsonl"), read_file(folder / "whole.jsonl"));
}

TEST(MetricsFile, ResumingDropsALineCutShort) {
  const TemporaryDirectory folder;
  write_steps(folder / "whole.jsonl", 1, 5, 0);
  const std::string whole = read_file(folder / "whole.jsonl");
  write_steps(folder / "start.jsonl", 1, 4, 0);
  const size_t four = read_file(folder / "start.jsonl").size();
  for (size_t length = four; length < whole.size(); length += 7) {
    write_file(folder / "cut.jsonl", whole.substr(0, length));
    EXPECT_EQ(read_steps(folder / "cut.jsonl").size(), 4U);
    write_steps(folder / "cut.jsonl", 5, 5, 4);
    EXPECT_EQ(read_file(folder / "cut.jsonl"), whole) << length;
  }
}

TEST(MetricsFile, NanIsNullAndReadsAsNan) {
  const TemporaryDirectory folder;
  StepMetrics s = step(1);
  s.loss = std::nan("");
  s.grad_norm = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(nlohmann::json::parse(to_json(s)).at("loss").is_null());
  MetricsFile(folder / "metrics.jsonl", 0).append(to_json(s));
  const StepMetrics back = read_steps(folder / "metrics.jsonl").at(0);
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_TRUE(std::isnan(back.grad_norm));
}

// As runs wrote it that knew of no devices.
TEST(MetricsFile, NoDeviceHasNoPeakOfMemory) {
  StepMetrics s = step(1);
  s.memory_peak = 0;
  EXPECT_TRUE(nlohmann::json::parse(to_json(s)).at("memory_peak").is_null());
  const TemporaryDirectory folder;
  MetricsFile(folder / "metrics.jsonl", 0).append(to_json(s));
  EXPECT_EQ(read_steps(folder / "metrics.jsonl").at(0).memory_peak, 0);
}

TEST(MetricsFile, AnAbsentPeakOfMemoryIsZero) {
  const TemporaryDirectory folder;
  nlohmann::json line = nlohmann::json::parse(to_json(step(1)));
  line.erase("memory_peak");
  write_file(folder / "metrics.jsonl", line.dump() + "\n");
  EXPECT_EQ(read_steps(folder / "metrics.jsonl").at(0).memory_peak, 0);
}

TEST(MetricsFile, ReadersLeaveDamagedLinesOutAndCountThem) {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& content, std::vector<int64_t> expected) {
    write_file(folder / "metrics.jsonl", content);
    testing::internal::CaptureStderr();
    std::vector<int64_t> steps;
    for (const StepMetrics& s : read_steps(folder / "metrics.jsonl")) steps.push_back(s.step);
    EXPECT_EQ(steps, expected);
    return testing::internal::GetCapturedStderr();
  };
  const std::string one = to_json(step(1)) + "\n", two = to_json(step(2)) + "\n";
  EXPECT_EQ(read(one + two, {1, 2}), "");
  EXPECT_THAT(read(one + "nonsense\n" + two, {1, 2}),
              AllOf(HasSubstr("1 unreadable line of metrics.jsonl was left out"),
                    HasSubstr("metrics.jsonl:2: expected a JSON object, found 'nonsense'")));
  EXPECT_THAT(read("{\"step\":1}\n[]\n" + two, {2}),
              AllOf(HasSubstr("2 unreadable lines of metrics.jsonl were left out"),
                    HasSubstr("metrics.jsonl:1: expected an integer 'consumed_samples'")));
  write_file(folder / "validation.jsonl", "x\n" + to_json(EvalMetrics{.step = 4}) + "\n");
  EXPECT_EQ(read_evals(folder / "validation.jsonl").size(), 1U);
}

// Whatever a line holds, the run goes on, and what it held is not lost.
TEST(MetricsFile, DamagedLinesAreKeptAside) {
  const TemporaryDirectory folder;
  const std::filesystem::path path = folder / "metrics.jsonl", aside = folder / "metrics.jsonl.damaged";
  const std::string first = to_json(step(1)) + "\n", second = to_json(step(2)) + "\n";
  std::mt19937 random(4);
  std::string all;
  for (int i = 0; i < 200; ++i) {
    std::string line = to_json(step(3));
    line[random() % line.size()] = static_cast<char>(random() % 256);
    if (line.find('\n') != std::string::npos) continue;
    write_file(path, first + line + "\n" + second);
    { MetricsFile(path, 2).append(to_json(step(3))); }
    const auto steps = read_steps(path);
    ASSERT_GE(steps.size(), 3U) << line;
    EXPECT_EQ(steps.front().step, 1);
    EXPECT_EQ(steps.back().step, 3);
    if (std::filesystem::exists(aside)) {
      const std::string kept = read_file(aside);
      EXPECT_TRUE(kept.starts_with(all)) << "earlier ones stay";
      all = kept;
    }
  }
  EXPECT_THAT(all, HasSubstr("consumed_samples"));
}

TEST(MetricsFile, ValidationsHaveTheirOwnLines) {
  const TemporaryDirectory folder;
  const EvalMetrics eval{.step = 100, .consumed_samples = 3200, .loss = 2.5, .tokens = 640, .seconds = 1.25};
  EXPECT_EQ(nlohmann::json::parse(to_json(eval)).at("perplexity"), std::exp(2.5));
  MetricsFile(folder / "validation.jsonl", 0).append(to_json(eval));
  const EvalMetrics back = read_evals(folder / "validation.jsonl").at(0);
  EXPECT_EQ(back.step, 100);
  EXPECT_EQ(back.consumed_samples, 3200);
  EXPECT_EQ(back.loss, 2.5);
  EXPECT_EQ(back.tokens, 640);
  EXPECT_EQ(back.seconds, 1.25);
}

}  // namespace
}  // namespace partita::internal
