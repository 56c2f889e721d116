#include "partita/train/plot.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/train/metrics_file.h"

namespace partita {
namespace fs = std::filesystem;
namespace {

// More points than columns of the picture only make it large.
constexpr size_t kMaxPoints = 4000;

std::string data_line(int64_t step, double value) {
  return std::isfinite(value) ? fmt::format("{} {}\n", step, value) : fmt::format("{} NaN\n", step);
}

// A gnuplot string: nothing in single quotes is special but the quote itself.
std::string gnuplot_string(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// The first lines that gnuplot says about its failure, in one line.
std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 300)) {
    if (c != '\n') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

void run_gnuplot(const fs::path& script) {
  const std::string command = "gnuplot " + shell_word(script.string()) + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) fail("cannot start gnuplot: {}", std::strerror(errno));
  std::string said;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) said += buffer.data();
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    fail("gnuplot is not installed, and it draws the picture: install it (Debian: apt install gnuplot-nox)");
  }
  if (status != 0) fail("gnuplot could not draw {}: {}", script.string(), one_line(said));
}

}  // namespace

std::vector<double> smoothed(std::span<const double> values, size_t half_width) {
  // Sums and counts of the finite values before each place.
  std::vector<double> sums{0};
  std::vector<size_t> counts{0};
  for (const double value : values) {
    const bool finite = std::isfinite(value);
    sums.push_back(sums.back() + (finite ? value : 0));
    counts.push_back(counts.back() + (finite ? 1 : 0));
  }
  std::vector<double> means;
  means.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t reach = std::min({half_width, i, values.size() - 1 - i});
    const size_t begin = i - reach, end = i + reach + 1, count = counts[end] - counts[begin];
    means.push_back(count > 0 ? (sums[end] - sums[begin]) / static_cast<double>(count)
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

std::string loss_script(std::span<const StepMetrics> steps, std::span<const EvalMetrics> evals,
                        const std::string& title, const std::string& output) {
  std::vector<double> losses;
  losses.reserve(steps.size());
  for (const StepMetrics& step : steps) losses.push_back(step.loss);
  const std::vector<double> means = smoothed(losses, steps.size() / 50);
  const size_t stride = (steps.size() + kMaxPoints - 1) / kMaxPoints;

  std::string loss_data, mean_data, eval_data;
  for (size_t i = 0; i < steps.size(); i += std::max<size_t>(stride, 1)) {
    loss_data += data_line(steps[i].step, losses[i]);
    mean_data += data_line(steps[i].step, means[i]);
  }
  for (const EvalMetrics& eval : evals) eval_data += data_line(eval.step, eval.loss);

  std::string curves =
      "  $loss using 1:2 with lines linewidth 1 linecolor rgb '#9ecae1' title 'training', \\\n"
      "  $mean using 1:2 with lines linewidth 2.5 linecolor rgb '#08519c' title 'training, moving average'";
  if (!evals.empty()) {
    curves +=
        ", \\\n  $validation using 1:2 with linespoints linewidth 2 pointtype 7 pointsize 0.7 "
        "linecolor rgb '#d94801' title 'validation'";
  }
  const std::string drawing = fmt::format(
      "set title {} noenhanced\nset xlabel 'optimizer step'\nset ylabel 'loss (nats per token)'\n"
      "set grid back linetype 1 linewidth 0.5 linecolor rgb '#cccccc'\nset key top right\nset rmargin 4\nset border "
      "3\nset tics nomirror out\n"
      "set format x '%.0f'\nset datafile missing 'NaN'\n",
      gnuplot_string(title));
  const auto picture = [&](const char* terminal, const char* extension) {
    return fmt::format("set terminal {}\nset output {}\nplot \\\n{}\nunset output\n", terminal,
                       gnuplot_string(output + extension), curves);
  };
  return fmt::format("$loss << END\n{}END\n$mean << END\n{}END\n$validation << END\n{}END\n{}", loss_data, mean_data,
                     eval_data, drawing) +
         picture("svg size 900,540 dynamic font 'sans-serif,14' background rgb 'white'", ".svg") +
         picture("pngcairo size 1350,810 font 'sans,16' background rgb 'white'", ".png");
}

LossPlot plot_losses(const fs::path& run) {
  const fs::path metrics = run / "metrics.jsonl", validation = run / "validation.jsonl";
  if (!fs::exists(metrics)) fail("{} holds no metrics.jsonl: give the directory of a run", run.string());
  const std::vector<StepMetrics> steps = read_steps(metrics);
  if (steps.empty()) fail("{} holds no step yet", metrics.string());
  const std::vector<EvalMetrics> evals = fs::exists(validation) ? read_evals(validation) : std::vector<EvalMetrics>{};

  const std::string output = (run / "loss").string();
  const LossPlot plot{.svg = output + ".svg", .png = output + ".png", .script = output + ".gp"};
  write_file(plot.script, loss_script(steps, evals, "Loss of " + run.string(), output));
  run_gnuplot(plot.script);
  return plot;
}

}  // namespace partita
