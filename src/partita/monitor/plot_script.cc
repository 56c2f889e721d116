#include "partita/monitor/plot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

namespace partita::internal {
namespace {

// More points than the picture has columns only make it larger.
constexpr size_t kMaxPoints = 4000;
// Runs with fewer steps are drawn as points, without an average.
constexpr size_t kShortRun = 50;
constexpr size_t kStepsPerSpan = 50;  // the averaging span is about a fiftieth of the run

constexpr std::array<std::string_view, 6> kColors = {"#08519c", "#d94801", "#238b45", "#6a51a3", "#b8860b", "#525252"};

struct Point {
  int64_t x;
  double y;
};

// Curves of one run against the selected axis.
struct Curves {
  std::vector<Point> losses, mean, validation, rates;
};

int64_t place_of(const StepMetrics& step, PlotAxis axis, int64_t tokens) {
  return axis == PlotAxis::steps ? step.step : axis == PlotAxis::samples ? step.consumed_samples : tokens;
}

Curves curves_of(const PlotRun& run, PlotAxis axis) {
  std::vector<double> losses;
  for (const StepMetrics& step : run.steps) losses.push_back(step.loss);
  const size_t span = run.steps.size() / kStepsPerSpan;
  const std::vector<double> means = smoothed(losses, static_cast<double>(span));
  const size_t stride = std::max<size_t>((run.steps.size() + kMaxPoints - 1) / kMaxPoints, 1);

  Curves curves;
  std::map<int64_t, int64_t> tokens_at;  // keyed by step
  int64_t tokens = 0;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const StepMetrics& step = run.steps[i];
    tokens += step.tokens;
    tokens_at[step.step] = tokens;
    if (i % stride != 0 && i + 1 != run.steps.size()) continue;
    const int64_t x = place_of(step, axis, tokens);
    curves.losses.push_back({x, losses[i]});
    curves.rates.push_back({x, step.learning_rate});
    if (run.steps.size() > kShortRun) curves.mean.push_back({x, means[i]});
  }
  for (const EvalMetrics& eval : run.evals) {
    const auto at = tokens_at.upper_bound(eval.step);
    const int64_t seen = at == tokens_at.begin() ? 0 : std::prev(at)->second;
    curves.validation.push_back({axis == PlotAxis::steps     ? eval.step
                                 : axis == PlotAxis::samples ? eval.consumed_samples
                                                             : seen,
                                 eval.loss});
  }
  return curves;
}

std::string data_block(const std::string& name, const std::vector<Point>& points) {
  std::string text = "$" + name + " << END\n";
  for (const Point& point : points)
    text += std::isfinite(point.y) ? fmt::format("{} {}\n", point.x, point.y) : fmt::format("{} NaN\n", point.x);
  return text + "END\n";
}

class Script {
 public:
  Script(std::span<const PlotRun> runs, const PlotContent& content) : content_(content) {
    for (size_t r = 0; r < runs.size(); ++r) add(runs[r], r, runs.size() == 1);
  }

  [[nodiscard]] const std::string& data() const { return data_; }
  [[nodiscard]] const std::string& plots() const { return plots_; }

  // Axis ranges and ticks, with room around a single point.
  [[nodiscard]] std::string axes() const {
    const int64_t margin = x_least_ == x_most_ ? 1 : 0;
    std::string text = fmt::format("set xrange [{}:{}]\nset xtics (", x_least_ - margin, x_most_ + margin);
    bool first = true;
    for (const int64_t tick : axis_ticks(x_least_, x_most_, 8)) {
      text += fmt::format("{}'{}' {}", first ? "" : ", ", tick_label(tick, x_most_), tick);
      first = false;
    }
    text += ")\n";
    if (y_least_ == y_most_) text += fmt::format("set yrange [{}:{}]\n", y_least_ - 0.5, y_most_ + 0.5);
    return text;
  }

 private:
  void add(const PlotRun& run, size_t number, bool alone) {
    const Curves curves = curves_of(run, content_.axis);
    const std::string_view color = kColors[number % kColors.size()];
    const std::string prefix = alone ? "" : run.name + ": ", id = alone ? "" : std::to_string(number);
    const bool smooth = !curves.mean.empty();
    if (alone || !smooth)
      curve(
          "loss" + id, curves.losses, prefix + "training",
          fmt::format("with {} linewidth 1 linecolor rgb '{}'",
                      smooth ? "lines" : "linespoints pointtype 7 pointsize 0.6", alone && smooth ? "#9ecae1" : color));
    if (smooth)
      curve("mean" + id, curves.mean, prefix + (alone ? "training, exponential average" : "training (average)"),
            fmt::format("with lines linewidth 2.5 linecolor rgb '{}'", color));
    curve("validation" + id, curves.validation, prefix + "validation",
          fmt::format("with linespoints linewidth 2 pointtype 7 pointsize 0.7 dashtype {} linecolor rgb '{}'",
                      alone ? 1 : 2, alone ? "#d94801" : color));
    if (content_.learning_rate)
      curve("rate" + id, curves.rates, prefix + "learning rate",
            fmt::format("axes x1y2 with lines linewidth 1.5 dashtype 3 linecolor rgb '{}'", alone ? "#777777" : color),
            /*is_loss=*/false);
  }

  void curve(const std::string& name, const std::vector<Point>& points, const std::string& title,
             const std::string& style, bool is_loss = true) {
    const auto finite = [](const Point& p) { return std::isfinite(p.y); };
    if (std::ranges::none_of(points, finite)) return;  // gnuplot rejects an empty curve
    data_ += data_block(name, points);
    plots_ += fmt::format("{}  ${} using 1:2 {} title {}", plots_.empty() ? "" : ", \\\n", name, style,
                          gnuplot_string(title));
    for (const Point& p : points) {
      x_least_ = std::min(x_least_, p.x);
      x_most_ = std::max(x_most_, p.x);
      if (!is_loss || !finite(p)) continue;
      y_least_ = std::min(y_least_, p.y);
      y_most_ = std::max(y_most_, p.y);
    }
  }

  PlotContent content_;
  std::string data_, plots_;
  int64_t x_least_ = std::numeric_limits<int64_t>::max(), x_most_ = std::numeric_limits<int64_t>::min();
  double y_least_ = std::numeric_limits<double>::infinity(), y_most_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<double> smoothed(std::span<const double> values, double span) {
  const double keep = span > 1 ? 1 - 2 / (span + 1) : 0;
  std::vector<double> means;
  means.reserve(values.size());
  double sum = 0, weight = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      sum = keep * sum + value;
      weight = keep * weight + 1;
    }
    means.push_back(weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

std::vector<int64_t> axis_ticks(int64_t least, int64_t largest, int64_t most) {
  int64_t step = 1;
  const auto count = [&] {  // multiples of `step` in the range
    const int64_t first = least <= 0 ? 0 : (least + step - 1) / step;
    return largest / step - first + 1;
  };
  for (int64_t power = 1; count() > most; power *= 10)
    for (const int64_t factor : {2, 5, 10})
      if (count() > most) step = factor * power;
  std::vector<int64_t> ticks;
  for (int64_t tick = least <= 0 ? 0 : (least + step - 1) / step * step; tick <= largest; tick += step)
    ticks.push_back(tick);
  return ticks;
}

std::string tick_label(int64_t tick, int64_t largest) {
  struct Unit {
    int64_t from, one;
    std::string_view name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1'000'000'000'000, 1'000'000'000'000, "T"},
                                           {1'000'000'000, 1'000'000'000, "B"},
                                           {1'000'000, 1'000'000, "M"},
                                           {10'000, 1'000, "k"}}};
  for (const Unit& unit : kUnits) {
    if (largest < unit.from) continue;
    if (tick == 0 || tick % (unit.one / 1000) != 0) break;  // labels would need more than three decimals
    return fmt::format("{}{}", static_cast<double>(tick) / static_cast<double>(unit.one), unit.name);
  }
  return fmt::format("{}", tick);
}

std::string gnuplot_string(const std::string& text) {
  constexpr std::string_view kPlain = " ._-+/,:=";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || byte >= 0x80 ||
                       kPlain.find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return out + '"';
}

std::string loss_script(std::span<const PlotRun> runs, const PlotContent& content, const std::string& title,
                        const std::string& picture) {
  const Script script(runs, content);
  std::string drawing = fmt::format(
      "# The folder of this script, where the pictures go.\n"
      "folder = \"./\"\n"
      "do for [i = 1:strlen(ARG0)] {{ if (ARG0[i:i] eq \"/\") {{ folder = ARG0[1:i] }} }}\n"
      "set encoding utf8\nset title {} noenhanced\nset xlabel '{}' offset 0,0.4\nset ylabel 'loss (nats per token)'\n"
      "set grid back linetype 1 linewidth 0.5 linecolor rgb '#cccccc'\n"
      "set key below noenhanced\nset rmargin 4\nset border 3\nset tics nomirror out\nset datafile missing 'NaN'\n",
      gnuplot_string(title), content.axis == PlotAxis::steps ? "optimizer step" : name_of(content.axis));
  if (content.learning_rate)
    drawing +=
        "set y2label 'learning rate'\nset y2tics nomirror out\nset format y2 '%g'\nset y2range [0:*]\n"
        "set rmargin 12\nset border 11\n";
  drawing += script.axes();
  const auto draw = [&](const char* terminal, const char* extension) {
    return fmt::format("set terminal {}\nset output folder.{}\nplot \\\n{}\nunset output\n", terminal,
                       gnuplot_string(picture + extension), script.plots());
  };
  return script.data() + drawing +
         draw("svg size 900,580 dynamic font 'sans-serif,14' background rgb 'white'", ".svg") +
         draw("pngcairo size 1350,870 font 'sans,16' background rgb 'white'", ".png");
}

}  // namespace partita::internal
