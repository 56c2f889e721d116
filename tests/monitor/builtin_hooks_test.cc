#include "partita/monitor/builtin_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>

#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/monitor/metrics_file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string stdout_of(const std::function<void()>& action) {
  ::testing::internal::CaptureStdout();
  action();
  return ::testing::internal::GetCapturedStdout();
}

int64_t event_files(const fs::path& folder) {
  int64_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    count += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  return count;
}

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct BuiltinHooksTest : public ::testing::Test {
  TemporaryDirectory folder;
  Config config;
  double step_seconds = 0.5;
  RunInfo info{.total_steps = 20, .global_batch = 32, .tokens_per_step = 1024, .directory = folder.path()};

  void SetUp() override {
    ::unsetenv("PARTITA_TERMINAL_WIDTH");
    log::configure(0, 1);
    log::set_level(log::Level::warn);
    config.log.every = 5;
    config.log.progress = Switch::off;
  }
  void TearDown() override {
    ::unsetenv("PARTITA_TERMINAL_WIDTH");
    log::set_level(log::Level::info);
  }

  // The events of a run from behind `resumed` to `last`, a validation at each tenth step.
  void run(int64_t resumed, int64_t last) {
    info.resumed_step = resumed;
    TrainerView view{.config = config, .info = info};
    Hooks hooks = builtin_hooks(config, info);
    hooks.before_run(view);
    for (int64_t i = resumed + 1; i <= last; ++i) {
      view.step = {.step = i,
                   .consumed_samples = 32 * i,
                   .loss = 1.0 / static_cast<double>(i),
                   .grad_norm = 1,
                   .learning_rate = 1e-3,
                   .seconds = step_seconds,
                   .tokens = 1024};
      hooks.after_step(view);
      if (i % 10 == 0) {
        view.eval = {.step = i, .consumed_samples = 32 * i, .loss = 2, .tokens = 1024, .seconds = 0.1};
        hooks.after_eval(view);
      }
    }
    hooks.after_run(view);
  }
};

TEST_F(BuiltinHooksTest, WriteEveryStepAndValidation) {
  stdout_of([&] { run(0, 20); });
  const std::vector<StepMetrics> steps = read_steps(folder / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 20U);
  EXPECT_EQ(steps.back().step, 20);
  EXPECT_EQ(steps.back().loss, 0.05);
  EXPECT_EQ(read_evals(folder / "validation.jsonl").size(), 2U);
  EXPECT_EQ(event_files(folder.path()), 1);
}

TEST_F(BuiltinHooksTest, PrintFirstStepEverySoManyAndTheRest) {
  const std::string out = stdout_of([&] { run(0, 12); });
  EXPECT_EQ(count_of(out, "] iteration "), 4);
  EXPECT_THAT(out, AllOf(HasSubstr("iteration        1/      20"), HasSubstr("iteration        5/      20"),
                         HasSubstr("iteration       10/      20"), HasSubstr("iteration       12/      20")));
  EXPECT_THAT(out, HasSubstr("validation loss at iteration 10 | lm loss value: 2.000000E+00"));
  // Step 5's line is the mean of steps 2 to 5.
  EXPECT_THAT(out, HasSubstr(fmt::format("lm loss: {:.6E}", (1.0 / 2 + 1.0 / 3 + 1.0 / 4 + 1.0 / 5) / 4)));
}

TEST_F(BuiltinHooksTest, ResumingContinuesTheFiles) {
  stdout_of([&] {
    run(0, 13);
    run(10, 20);
  });
  const std::vector<StepMetrics> steps = read_steps(folder / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 20U);
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i].step, static_cast<int64_t>(i) + 1);
  EXPECT_EQ(read_evals(folder / "validation.jsonl").size(), 2U);
}

TEST_F(BuiltinHooksTest, OtherRanksHaveNone) {
  info.rank = 1;
  EXPECT_EQ(builtin_hooks(config, info).size(), 0U);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(BuiltinHooksTest, FollowTheConfiguration) {
  config.log.tensorboard = false;
  EXPECT_EQ(builtin_hooks(config, info).size(), 2U);  // metrics and log line
  EXPECT_EQ(event_files(folder.path()), 0);
  config.log.progress = Switch::on;
  EXPECT_EQ(builtin_hooks(config, info).size(), 3U);
  config.log.progress = Switch::automatic;  // the test's stderr may be a terminal: say that it is none, and then one
  ::setenv("PARTITA_TERMINAL_WIDTH", "0", 1);
  EXPECT_EQ(builtin_hooks(config, info).size(), 2U);
  ::setenv("PARTITA_TERMINAL_WIDTH", "80", 1);
  EXPECT_EQ(builtin_hooks(config, info).size(), 3U);
}

// Each curve once; training and validation loss in one chart, which TensorBoard makes of a common beginning.
TEST_F(BuiltinHooksTest, TensorBoardHasEachCurveOnce) {
  stdout_of([&] { run(0, 10); });
  std::string events;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("events.out.")) events = read_file(entry.path());
  EXPECT_EQ(count_of(events, "loss/train"), 10);
  EXPECT_EQ(count_of(events, "loss/validation"), 1);
  EXPECT_EQ(count_of(events, "train/grad_norm"), 10);
}

TEST_F(BuiltinHooksTest, TheCpusPaceIsSaidBeforeTheFirstStep) {
  info.on_cpu = true;
  info.trained_parameters = 2'000'000;
  info.flops_per_token = 12e6;
  info.peak_flops = 24e6 * 1024;  // half of it: a second per step
  log::set_level(log::Level::info);
  ::testing::internal::CaptureStderr();
  stdout_of([&] { run(0, 20); });
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown,
              HasSubstr("training 2.00M parameters on the CPU, 1.0k tokens per step: about 1.0 s per step, 20 s for "
                        "20 steps"));
  EXPECT_THAT(shown, Not(HasSubstr("a step takes")));  // half a second: too short to be worth a word
  info.peak_flops *= 100;
  log::set_level(log::Level::info);
  ::testing::internal::CaptureStderr();
  step_seconds = 2;
  stdout_of([&] { run(0, 20); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("a step takes 2.0 s: 32 s for the remaining 16 steps"));
  info.peak_flops /= 1e8;
  ::testing::internal::CaptureStderr();
  stdout_of([&] { run(0, 1); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("warning: this run is far too long for this machine"));
}

TEST_F(BuiltinHooksTest, ProgressIsABarOnATerminalAndGoesAway) {
  config.log.progress = Switch::on;
  ::setenv("PARTITA_TERMINAL_WIDTH", "80", 1);
  ::testing::internal::CaptureStderr();
  stdout_of([&] { run(0, 20); });
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, AllOf(HasSubstr("100% ["), HasSubstr("20/20"), ::testing::EndsWith("\r\x1b[K")));
}

TEST_F(BuiltinHooksTest, ProgressIsALineElsewhere) {
  config.log.progress = Switch::on;
  ::setenv("PARTITA_TERMINAL_WIDTH", "0", 1);
  log::set_level(log::Level::info);
  ::testing::internal::CaptureStderr();
  stdout_of([&] { run(0, 20); });
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, AllOf(HasSubstr("step 20 of 20 (100%)"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(count_of(shown, "step "), 1);  // a quick run says it once
}

}  // namespace
}  // namespace partita::internal
