#include "partita/monitor/plot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "partita/base/file.h"
#include "partita/monitor/metrics_file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
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

TEST(Smoothed, IsTheWeightedMeanOfWhatCameBefore) {
  const std::vector<double> values = {1, 2, 6, 2};
  EXPECT_THAT(smoothed(values, 0), ElementsAre(1, 2, 6, 2));
  EXPECT_THAT(smoothed(values, 1), ElementsAre(1, 2, 6, 2));
  // A span of 3 halves the weight with each step back.
  EXPECT_THAT(smoothed(values, 3),
              ElementsAre(1, testing::DoubleEq((0.5 * 1 + 2) / 1.5), testing::DoubleEq((0.25 * 1 + 0.5 * 2 + 6) / 1.75),
                          testing::DoubleEq((0.125 * 1 + 0.25 * 2 + 0.5 * 6 + 2) / 1.875)));
  EXPECT_TRUE(smoothed({}, 3).empty());
}

// The last average of a noisy curve is no nearer to its last value than those in the middle are to theirs.
TEST(Smoothed, IsAsHonestAtTheEndAsInTheMiddle) {
  std::vector<double> noise;
  for (int i = 0; i < 1000; ++i) noise.push_back(3 + (i % 2 == 0 ? 0.5 : -0.5));
  const std::vector<double> means = smoothed(noise, 20);
  for (size_t i = 200; i < means.size(); ++i) EXPECT_NEAR(means[i], 3, 0.03) << i;
  // It knows nothing of what comes: a longer curve begins with the same averages.
  const std::vector<double> first = smoothed(std::span(noise).first(300), 20);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], means[i]);
}

TEST(Smoothed, PassesOverWhatIsNotFinite) {
  EXPECT_THAT(smoothed(std::vector<double>{1, kNan, 3}, 3), ElementsAre(1, 1, testing::DoubleEq(3.5 / 1.5)));
  EXPECT_THAT(smoothed(std::vector<double>{kNan, 1}, 5), ElementsAre(IsNan(), 1));
}

TEST(AxisTicks, AreFewWholeNumbersAllDifferent) {
  EXPECT_THAT(axis_ticks(1, 1, 8), ElementsAre(1));
  EXPECT_THAT(axis_ticks(1, 4, 8), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(axis_ticks(1, 400, 8), ElementsAre(50, 100, 150, 200, 250, 300, 350, 400));
  EXPECT_THAT(axis_ticks(1, 410, 7), ElementsAre(100, 200, 300, 400));
  EXPECT_THAT(axis_ticks(0, 6400, 8), ElementsAre(0, 1000, 2000, 3000, 4000, 5000, 6000));
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto least = static_cast<int64_t>(random() >> (1 + random() % 63));
    const auto most = least + static_cast<int64_t>(random() >> (2 + random() % 62)) / 2;
    if (most < least) continue;
    const std::vector<int64_t> ticks = axis_ticks(least, most, 8);
    ASSERT_LE(ticks.size(), 8U) << least << " " << most;
    if (most > least) {
      ASSERT_GE(ticks.size(), 2U) << least << " " << most;
    }
    std::set<std::string> labels;
    for (const int64_t tick : ticks) {
      EXPECT_TRUE(tick >= least && tick <= most);
      labels.insert(tick_label(tick, most));
    }
    EXPECT_EQ(labels.size(), ticks.size()) << least << " " << most;
  }
}

TEST(TickLabel, HasAUnitWhereNumbersAreLong) {
  EXPECT_EQ(tick_label(400, 400), "400");
  EXPECT_EQ(tick_label(5000, 9000), "5000");
  EXPECT_EQ(tick_label(2500, 20000), "2.5k");
  EXPECT_EQ(tick_label(0, 20000), "0");
  EXPECT_EQ(tick_label(1'500'000, 5'000'000), "1.5M");
  EXPECT_EQ(tick_label(20'000'000'000, 100'000'000'000), "20B");
  EXPECT_EQ(tick_label(9999, 9999), "9999");
  EXPECT_EQ(tick_label(10'000, 10'000), "10k");
  EXPECT_EQ(tick_label(1'000'000, 1'000'000), "1M");
  EXPECT_EQ(tick_label(2'000'000'000'000, 2'000'000'000'000), "2T");
}

TEST(GnuplotString, HoldsAnyBytes) {
  EXPECT_EQ(gnuplot_string("runs/a-1_b.c"), "\"runs/a-1_b.c\"");
  EXPECT_EQ(gnuplot_string("\"'`@$\\\n%{|"), "\"\\042\\047\\140\\100\\044\\134\\012\\045\\173\\174\"");
  EXPECT_EQ(gnuplot_string("\xC3\xBC"), "\"\xC3\xBC\"");
}

std::vector<PlotRun> one_run(std::vector<StepMetrics> steps, std::vector<EvalMetrics> evals = {}) {
  return {{.name = "runs/a", .steps = std::move(steps), .evals = std::move(evals)}};
}

TEST(LossScript, HoldsDataAndLabels) {
  const std::string script = loss_script(
      one_run({{.step = 1, .loss = 2.5}, {.step = 2, .loss = kNan}}, {{.step = 2, .loss = 2.75}}), {}, "it's", "loss");
  EXPECT_THAT(script, StartsWith("$loss << END\n1 2.5\n2 NaN\nEND\n"));
  EXPECT_THAT(script,
              AllOf(HasSubstr("$validation << END\n2 2.75\nEND\n"), HasSubstr("set title \"it\\047s\" noenhanced"),
                    HasSubstr("set xlabel 'optimizer step'"), HasSubstr("set output folder.\"loss.svg\""),
                    HasSubstr("set output folder.\"loss.png\""), HasSubstr("$validation using 1:2"),
                    HasSubstr("set xtics ('1' 1, '2' 2)"), HasSubstr("with linespoints")));
  EXPECT_THAT(script, Not(HasSubstr("average")));  // over two steps it says nothing
  EXPECT_THAT(loss_script(one_run({{.step = 1, .loss = 2.5}}), {}, "", "a"), Not(HasSubstr("$validation")));
}

TEST(LossScript, HasRoomAroundASingleStep) {
  EXPECT_THAT(loss_script(one_run({{.step = 7, .loss = 2.5}}), {}, "", "a"),
              AllOf(HasSubstr("set xrange [6:8]"), HasSubstr("set yrange [2:3]"), HasSubstr("set xtics ('7' 7)")));
}

// The range of the losses is theirs, whatever the other axis shows.
TEST(LossScript, TheLearningRateHasARangeOfItsOwn) {
  EXPECT_THAT(loss_script(one_run({{.step = 7, .loss = 2.5, .learning_rate = 0.25}}), {.learning_rate = true}, "", "a"),
              HasSubstr("set yrange [2:3]"));
}

// The average spans a fiftieth of the run, and is drawn where that is more than a step.
TEST(LossScript, AveragesAFiftiethOfTheRun) {
  const auto script = [](size_t count) {
    std::vector<StepMetrics> steps(count);
    for (size_t i = 0; i < count; ++i) steps[i] = {.step = static_cast<int64_t>(i) + 1, .loss = i == 0 ? 1.0 : 3.0};
    return loss_script(one_run(std::move(steps)), {}, "", "a");
  };
  EXPECT_THAT(script(50), Not(HasSubstr("$mean")));
  EXPECT_THAT(script(51), AllOf(HasSubstr("$loss << END\n1 1\n2 3\n"), HasSubstr("$mean << END\n1 1\n2 3\n")));
  // 150 steps: a span of 3 halves the weight with each step back, (0.5 * 1 + 3) / 1.5.
  EXPECT_THAT(script(150), AllOf(HasSubstr("$loss << END\n1 1\n2 3\n"), HasSubstr("$mean << END\n1 1\n2 2.33333")));
}

TEST(LossScript, CountsTokensAndSamples) {
  const std::vector<PlotRun> runs =
      one_run({{.step = 5, .consumed_samples = 40, .loss = 3, .learning_rate = 0.5, .tokens = 100},
               {.step = 6, .consumed_samples = 48, .loss = 2, .learning_rate = 0.25, .tokens = 100}},
              {{.step = 6, .consumed_samples = 48, .loss = 2.5}});
  EXPECT_THAT(loss_script(runs, {.axis = PlotAxis::tokens}, "", "a"),
              AllOf(HasSubstr("$loss << END\n100 3\n200 2\nEND"), HasSubstr("$validation << END\n200 2.5\n"),
                    HasSubstr("set xlabel 'tokens'")));
  EXPECT_THAT(loss_script(runs, {.axis = PlotAxis::samples, .learning_rate = true}, "", "a"),
              AllOf(HasSubstr("$loss << END\n40 3\n48 2\nEND"), HasSubstr("$rate << END\n40 0.5\n48 0.25\nEND"),
                    HasSubstr("axes x1y2"), HasSubstr("set y2label 'learning rate'")));
}

TEST(LossScript, DrawsSeveralRunsByName) {
  std::vector<PlotRun> runs = one_run({{.step = 1, .loss = 3}, {.step = 2, .loss = 2}});
  runs.push_back({.name = "runs/b", .steps = {{.step = 1, .loss = 4}}, .evals = {{.step = 1, .loss = 4.5}}});
  EXPECT_THAT(loss_script(runs, {}, "", "a"),
              AllOf(HasSubstr("title \"runs/a: training\""), HasSubstr("title \"runs/b: training\""),
                    HasSubstr("title \"runs/b: validation\""), HasSubstr("$loss0 << END\n1 3\n2 2\nEND"),
                    HasSubstr("$loss1 << END\n1 4\nEND"), Not(HasSubstr("runs/a: validation"))));
  EXPECT_THAT(loss_script(runs, {}, "", "a"), AllOf(HasSubstr("linecolor rgb '#08519c' title \"runs/a"),
                                                    HasSubstr("linecolor rgb '#d94801' title \"runs/b")));
  // Of several long runs the averages alone, which can be told apart.
  for (PlotRun& run : runs) {
    run.steps.resize(60, {.loss = 1});
    for (size_t i = 0; i < run.steps.size(); ++i) run.steps[i].step = static_cast<int64_t>(i) + 1;
  }
  EXPECT_THAT(loss_script(runs, {}, "", "a"),
              AllOf(HasSubstr("$mean0"), HasSubstr("$mean1"), Not(HasSubstr("$loss0"))));
}

TEST(LossScript, ThinsOutALongRun) {
  for (const size_t count : {4000U, 4001U, 7999U, 100'001U}) {
    std::vector<StepMetrics> steps(count);
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = {.step = static_cast<int64_t>(i) + 1, .loss = 1};
    const std::string script = loss_script(one_run(std::move(steps)), {}, "", "a");
    EXPECT_LT(std::count(script.begin(), script.end(), '\n'), 2 * 4001 + 50) << count;
    EXPECT_THAT(script, HasSubstr(fmt::format("\n{} 1\nEND", count)));  // the last step is there
  }
}

bool has_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

LossPlot plot(const std::vector<std::filesystem::path>& runs, const LossPlotOptions& options = {}) {
  return plot_losses(runs, options);
}

TEST(PlotLosses, DrawsBothPictures) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  const std::filesystem::path run = folder / "it's a run";
  write_run(run);
  const LossPlot drawn = plot({run});
  EXPECT_THAT(read_file(drawn.png), StartsWith("\x89PNG\r\n"));
  const std::string svg = read_file(drawn.svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("optimizer step"), HasSubstr("validation"), HasSubstr("</svg>")));
  // The script draws the same again next to itself, started from anywhere.
  std::filesystem::remove(drawn.svg);
  std::filesystem::remove(drawn.png);
  EXPECT_EQ(std::system(("cd '" + folder.path().string() + "' && gnuplot 'it'\\''s a run/loss.gp'").c_str()), 0);
  EXPECT_EQ(read_file(drawn.svg), svg);
  EXPECT_EQ(
      std::system(("cd \"" + run.string() + "\" && rm loss.svg && gnuplot loss.gp && cmp loss.svg loss.svg").c_str()),
      0);
  EXPECT_EQ(read_file(drawn.svg), svg);
}

TEST(PlotLosses, DrawsEveryRunWithANumberInIt) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  const auto run = [&](const char* name, const std::vector<double>& losses, bool evaluated) {
    std::filesystem::create_directories(folder / name);
    if (!losses.empty()) {
      MetricsFile file(folder / name / "metrics.jsonl", 0);
      for (size_t i = 0; i < losses.size(); ++i)
        file.append(to_json(StepMetrics{.step = static_cast<int64_t>(i) + 1, .loss = losses[i], .tokens = 10}));
    }
    if (evaluated)
      MetricsFile(folder / name / "validation.jsonl", 0).append(to_json(EvalMetrics{.step = 1, .loss = 2}));
    return folder / name;
  };
  for (const PlotAxis axis : {PlotAxis::steps, PlotAxis::tokens, PlotAxis::samples}) {
    const LossPlotOptions options{.content = {.axis = axis, .learning_rate = true}, .output = {}};
    EXPECT_GT(std::filesystem::file_size(plot({run("one", {3}, false)}, options).png), 1000U);
    EXPECT_GT(std::filesystem::file_size(plot({run("flat", {3, 3, 3}, false)}, options).png), 1000U);
    EXPECT_GT(std::filesystem::file_size(plot({run("holes", {kNan, 3, kNan}, true)}, options).png), 1000U);
    EXPECT_GT(std::filesystem::file_size(plot({run("validation only", {}, true)}, options).png), 1000U);
  }
  EXPECT_THAT(error_message([&] {
                plot({run("nothing", {kNan, kNan}, false)});
              }),
              HasSubstr("no loss is a finite number"));
  const LossPlot both = plot({folder / "one", folder / "flat"});
  EXPECT_EQ(both.svg, folder / "loss.svg");
  EXPECT_THAT(read_file(both.svg), AllOf(HasSubstr("one: training"), HasSubstr("flat: training")));
  EXPECT_EQ(plot({folder / "one"}, {.content = {}, .output = folder / "new/deep/p"}).png, folder / "new/deep/p.png");
  // As a shell completes it.
  EXPECT_EQ(plot({folder / "one/", folder / "flat/"}).svg, folder / "loss.svg");
  const LossPlot one = plot({folder / "one/"});
  EXPECT_EQ(one.svg, folder / "one/loss.svg");
  EXPECT_THAT(read_file(one.script), HasSubstr("/one\" noenhanced"));
  EXPECT_THAT(error_message([&] { plot({folder / "one"}, {.content = {}, .output = folder / "new/"}); }),
              HasSubstr("is a folder: give a file name"));
}

// No character of a name is a command, of gnuplot or of a shell.
TEST(PlotLosses, NamesAreOnlyNames) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  const std::string victim = (folder / "victim").string();
  int number = 0;
  for (const std::string name :
       {"`touch victim`", "$(touch victim)", "a'; system('touch victim'); '", "x\"; !touch victim; \"", "b\\", "100%",
        "@GPVAL_VERSION", "|touch victim", "-persist", "{*9 a}", "$loss", "\xC3\xA9t\xC3\xA9 \xE6\xB5\x8B"}) {
    const std::filesystem::path run = folder / std::to_string(++number) / name;
    write_run(run);
    const std::string here = std::filesystem::current_path();
    std::filesystem::current_path(run.parent_path());  // where a command would leave its file
    const LossPlot drawn = plot({name});
    const LossPlot named = plot({name}, {.content = {}, .output = name + ".out"});
    EXPECT_THAT(read_file(drawn.svg), HasSubstr("</svg>")) << name;
    EXPECT_THAT(read_file(named.svg), HasSubstr("</svg>")) << name;
    EXPECT_FALSE(std::filesystem::exists("victim")) << name;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(name) / "victim")) << name;
    std::filesystem::current_path(here);
  }
  for (const std::string name : {"a\nset output 'x'", "a\x1b[31m", "a\x7f", "a\tb"}) {
    write_run(folder / name);
    EXPECT_THAT(error_message([&] { plot({folder / name}); }), HasSubstr("control character")) << name;
    EXPECT_THAT(
        error_message([&] { plot({folder / "1" / "`touch victim`"}, {.content = {}, .output = folder / name}); }),
        HasSubstr("control character"))
        << name;
  }
}

TEST(PlotLosses, LeavesDamagedLinesOut) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  write_run(folder / "run");
  const std::string good = read_file(folder / "run/metrics.jsonl");
  write_file(folder / "run/metrics.jsonl", "{\"st\xff\n" + good);
  EXPECT_THAT(read_file(plot({folder / "run"}).svg), HasSubstr("</svg>"));
  write_file(folder / "run/metrics.jsonl", "nonsense\n");
  std::filesystem::remove(folder / "run/validation.jsonl");
  EXPECT_THAT(error_message([&] { plot({folder / "run"}); }), HasSubstr("has no steps yet"));
}

TEST(PlotLosses, ReplacesAllFilesOrNone) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is missing";
  const TemporaryDirectory folder;
  write_run(folder / "run");
  const LossPlot first = plot({folder / "run"});
  const std::string svg = read_file(first.svg);
  // Programs in the place of gnuplot: half of one picture, as on a full disk, or an end by an error or a signal.
  const std::string place = "#!/bin/sh\nd=$(dirname \"$1\")\n", svg_whole = "echo '<svg></svg>' > \"$d/loss.svg\"\n",
                    svg_half = "echo '<svg' > \"$d/loss.svg\"\n",
                    png_whole = "echo PNG-data-and-more-IEND > \"$d/loss.png\"\n",
                    png_half = "echo PNG-data-and-more > \"$d/loss.png\"\n";
  std::filesystem::create_directories(folder / "bin");
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", ((folder / "bin").string() + ":" + path).c_str(), 1);
  for (const auto& [program, message] : std::vector<std::pair<std::string, std::string>>{
           {svg_half + png_whole, "only a part of"},
           {svg_whole + png_half, "only a part of"},
           {svg_whole, "only a part of"},
           {svg_whole + png_whole + "echo 'line 5: no such terminal' >&2\nexit 3\n", "line 5: no such terminal"},
           {svg_whole + png_whole + "kill -9 $$\n", "gnuplot could not draw"}}) {
    std::filesystem::remove(folder / "bin/gnuplot");
    write_file(folder / "bin/gnuplot", place + program);
    std::filesystem::permissions(folder / "bin/gnuplot", std::filesystem::perms::owner_all);
    EXPECT_THAT(error_message([&] { plot({folder / "run"}); }), HasSubstr(message)) << program;
  }
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(read_file(first.svg), svg);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("partial")));
}

TEST(PlotLosses, NamesWhatIsMissing) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([&] { plot({folder / "absent"}); }), HasSubstr("absent has no metrics.jsonl"));
  MetricsFile(folder / "metrics.jsonl", 0);
  EXPECT_THAT(error_message([&] { plot({folder.path()}); }), HasSubstr("has no steps yet"));
  write_run(folder / "run");
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  EXPECT_THAT(
      error_message([&] { plot({folder / "run"}); }),
      AllOf(HasSubstr("is not installed"), HasSubstr("apt install gnuplot-nox"), HasSubstr("run/loss.gp is ready")));
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace partita::internal
