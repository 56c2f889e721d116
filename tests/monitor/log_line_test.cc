#include "partita/monitor/log_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

namespace partita::internal {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

StepMetrics step_ten() {
  return {.step = 10,
          .consumed_samples = 320,
          .loss = 8.25,
          .grad_norm = 1.5,
          .learning_rate = 6e-5,
          .seconds = 0.5,
          .tokens = 8192,
          .skipped_steps = 2,
          .nan_steps = 1};
}

RunInfo info() {
  return {.ranks = 2, .total_steps = 1000, .global_batch = 32, .flops_per_token = 1e9, .peak_flops = 20e12};
}

// The fields of a line as a script would take them: " | " between, ": " inside.
std::map<std::string, std::string> fields(const std::string& line) {
  std::map<std::string, std::string> found;
  for (size_t begin = 0, end = 0; (end = line.find('|', begin)) != std::string::npos; begin = end + 1) {
    const std::string field = line.substr(begin, end - begin);
    const size_t colon = field.rfind(": ");
    if (colon == std::string::npos) continue;
    const size_t name = field.find_first_not_of(' '), value = field.find_first_not_of(' ', colon + 1);
    found[field.substr(name, colon - name)] = field.substr(value, field.find_last_not_of(' ') + 1 - value);
  }
  return found;
}

TEST(StepLine, HasMegatronsFieldsAndOurs) {
  const std::string line = step_line(step_ten(), info(), 0);
  EXPECT_THAT(line, HasSubstr("] iteration       10/    1000 | consumed samples:          320 | elapsed time per "
                              "iteration (ms): 500.0 | tokens per second: 16384.0 | "));
  EXPECT_THAT(line, ::testing::EndsWith(" | number of skipped iterations:   2 | number of nan iterations:   1 |"));
  const auto values = fields(line);
  EXPECT_EQ(values.at("throughput per device (TFLOP/s)"), "8.192");  // 16384 tokens/s x 1e9 / 2 devices
  EXPECT_EQ(values.at("MFU"), "41.0%");
  EXPECT_EQ(values.at("learning rate"), "6.000000E-05");
  EXPECT_EQ(values.at("global batch size"), "32");
  EXPECT_EQ(values.at("lm loss"), "8.250000E+00");
  EXPECT_EQ(values.at("grad norm"), "1.500");
}

TEST(StepLine, BeginsWithTheLocalTime) {
  EXPECT_THAT(step_line(step_ten(), info(), 1'000'000'000),
              ::testing::MatchesRegex(" \\[2001-09-0[89] [0-9][0-9]:[0-9][0-9]:40\\] iteration .*"));
}

TEST(StepLine, LeavesOutMfuWhereThePeakIsUnknown) {
  RunInfo unknown = info();
  unknown.peak_flops = 0;
  EXPECT_THAT(step_line(step_ten(), unknown, 0), Not(HasSubstr("MFU")));
}

TEST(StepLine, ShowsNanAndInfinity) {
  StepMetrics step = step_ten();
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.grad_norm = std::numeric_limits<double>::infinity();
  const auto values = fields(step_line(step, info(), 0));
  EXPECT_TRUE(std::isnan(std::strtod(values.at("lm loss").c_str(), nullptr))) << values.at("lm loss");
  EXPECT_TRUE(std::isinf(std::strtod(values.at("grad norm").c_str(), nullptr))) << values.at("grad norm");
}

// A NaN has a sign, which says nothing.
TEST(StepLine, ShowsNanWithoutASign) {
  StepMetrics step = step_ten();
  step.loss = step.grad_norm = -std::numeric_limits<double>::quiet_NaN();
  const auto values = fields(step_line(step, info(), 0));
  EXPECT_EQ(values.at("lm loss"), "NAN");
  EXPECT_EQ(values.at("grad norm"), "nan");
  EXPECT_THAT(validation_box({.loss = -std::numeric_limits<double>::quiet_NaN(), .tokens = 5}), Not(HasSubstr("-NAN")));
}

TEST(StepLine, TakesAStepWithoutTime) {
  StepMetrics step = step_ten();
  step.seconds = 0;
  EXPECT_EQ(fields(step_line(step, info(), 0)).at("tokens per second"), "0.0");
}

// A user's module.
TEST(StepLine, CountsSamplesWhereThereAreNoTokens) {
  StepMetrics step = step_ten();
  step.tokens = 0;
  const std::string line = step_line(step, info(), 0);
  const auto values = fields(line);
  EXPECT_EQ(values.at("samples per second"), "64.0");
  EXPECT_EQ(values.at("loss"), "8.250000E+00");
  EXPECT_EQ(values.at("learning rate"), "6.000000E-05");
  for (const char* absent : {"tokens", "throughput", "MFU", "lm loss"}) EXPECT_THAT(line, Not(HasSubstr(absent)));
}

TEST(StepWindow, AveragesWhatVariesAndKeepsTheLastOfTheRest) {
  StepWindow window;
  EXPECT_TRUE(window.empty());
  StepMetrics first = step_ten(), second = step_ten();
  second.step = 11, second.consumed_samples = 352, second.loss = 8.75, second.grad_norm = 0.5;
  second.seconds = 1.5, second.learning_rate = 7e-5, second.skipped_steps = 3;
  window.add(first);
  window.add(second);
  const StepMetrics mean = window.take();
  EXPECT_EQ(mean.step, 11);
  EXPECT_EQ(mean.consumed_samples, 352);
  EXPECT_DOUBLE_EQ(mean.loss, 8.5);
  EXPECT_DOUBLE_EQ(mean.grad_norm, 1.0);
  EXPECT_DOUBLE_EQ(mean.seconds, 1.0);
  EXPECT_DOUBLE_EQ(mean.tokens_per_second(), 8192);  // 16384 tokens in two seconds
  EXPECT_EQ(mean.learning_rate, 7e-5);
  EXPECT_EQ(mean.skipped_steps, 3);
  EXPECT_TRUE(window.empty());
  window.add(first);
  EXPECT_DOUBLE_EQ(window.take().loss, 8.25);  // nothing of the window before
}

TEST(ValidationBox, ShowsLossAndPerplexity) {
  const std::string box = validation_box({.step = 100, .loss = std::log(24.0), .tokens = 5});
  const std::string text =
      " validation loss at iteration 100 | lm loss value: 3.178054E+00 | lm loss PPL: 2.400000E+01 | ";
  const std::string dashes(text.size(), '-');
  EXPECT_EQ(box, dashes + "\n" + text + "\n" + dashes);
}

TEST(Perplexity, IsCappedAndKeepsNan) {
  EXPECT_DOUBLE_EQ((EvalMetrics{.loss = 0}).perplexity(), 1);
  EXPECT_DOUBLE_EQ((EvalMetrics{.loss = 25}).perplexity(), std::exp(20.0));
  EXPECT_TRUE(std::isnan((EvalMetrics{.loss = std::nan("")}).perplexity()));
}

}  // namespace
}  // namespace partita::internal
