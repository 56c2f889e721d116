#include "partita/train/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "partita/base/file.h"
#include "partita/train/metrics_file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void write_run(const std::filesystem::path& run) {
  std::filesystem::create_directories(run);
  MetricsFile steps(run / "metrics.jsonl", 0), evals(run / "validation.jsonl", 0);
  for (int64_t i = 1; i <= 100; ++i) {
    const double loss = i == 50 ? kNan : 3 + 5 * std::exp(-static_cast<double>(i) / 20);
    steps.append(to_json(StepMetrics{.step = i, .loss = loss, .tokens = 1}));
    if (i % 25 == 0) evals.append(to_json(EvalMetrics{.step = i, .loss = loss + 0.1}));
  }
}

TEST(Smoothed, TakesAsManyValuesToBothSides) {
  const std::vector<double> values = {1, 2, 6, 2, 4};
  EXPECT_THAT(smoothed(values, 0), ElementsAre(1, 2, 6, 2, 4));
  EXPECT_THAT(smoothed(values, 1), ElementsAre(1, 3, 10.0 / 3, 4, 4));
  EXPECT_THAT(smoothed(values, 99), ElementsAre(1, 3, 3, 4, 4));
  EXPECT_TRUE(smoothed({}, 3).empty());
}

TEST(Smoothed, KeepsAStraightLine) {
  std::vector<double> line;
  for (int i = 0; i < 100; ++i) line.push_back(10 - 0.1 * i);
  const std::vector<double> means = smoothed(line, 9);
  for (size_t i = 0; i < line.size(); ++i) EXPECT_NEAR(means[i], line[i], 1e-12);
}

TEST(Smoothed, PassesOverWhatIsNotFinite) {
  EXPECT_THAT(smoothed(std::vector<double>{1, kNan, 3}, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(smoothed(std::vector<double>{kNan, 1}, 5), ElementsAre(IsNan(), 1));
}

TEST(LossScript, HoldsDataAndLabels) {
  const std::vector<StepMetrics> steps = {{.step = 1, .loss = 2.5}, {.step = 2, .loss = kNan}};
  const std::vector<EvalMetrics> evals = {{.step = 2, .loss = 2.75}};
  const std::string script = loss_script(steps, evals, "it's", "dir/loss");
  EXPECT_THAT(script, StartsWith("$loss << END\n1 2.5\n2 NaN\nEND\n"));
  EXPECT_THAT(script, AllOf(HasSubstr("$validation << END\n2 2.75\nEND\n"), HasSubstr("set title 'it''s' noenhanced"),
                            HasSubstr("set xlabel 'optimizer step'"), HasSubstr("set output 'dir/loss.svg'"),
                            HasSubstr("set output 'dir/loss.png'"), HasSubstr("$validation using 1:2")));
  EXPECT_THAT(loss_script(steps, {}, "", "a"), Not(HasSubstr("$validation using")));
}

TEST(LossScript, ThinsOutALongRun) {
  std::vector<StepMetrics> steps(100'001);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = {.step = static_cast<int64_t>(i) + 1, .loss = 1};
  const std::string script = loss_script(steps, {}, "", "a");
  EXPECT_LT(std::count(script.begin(), script.end(), '\n'), 2 * 4000 + 50);
}

TEST(PlotLosses, DrawsBothPictures) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  const std::filesystem::path run = folder / "it's a run";
  write_run(run);
  const LossPlot plot = plot_losses(run);
  EXPECT_THAT(read_file(plot.png), StartsWith("\x89PNG\r\n"));
  const std::string svg = read_file(plot.svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("optimizer step"), HasSubstr("validation"), HasSubstr("</svg>")));
}

TEST(PlotLosses, NamesWhatIsMissing) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { plot_losses(folder / "absent"); }), HasSubstr("absent holds no metrics.jsonl"));
  MetricsFile(folder / "metrics.jsonl", 0);
  EXPECT_THAT(error_message([&] { plot_losses(folder.path()); }), HasSubstr("holds no step yet"));
  write_run(folder / "run");
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  EXPECT_THAT(error_message([&] { plot_losses(folder / "run"); }), HasSubstr("gnuplot is not installed"));
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace partita
