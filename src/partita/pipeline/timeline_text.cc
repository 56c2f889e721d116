#include "partita/pipeline/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace partita::internal {
namespace {

constexpr std::string_view kLeftOut = " // ";

struct Cell {
  std::string label;
  double start = 0, end = 0;
};

std::vector<Cell> cells_of(const std::vector<Timeline::Span>& spans, int chunks) {
  std::vector<Cell> cells;
  bool second = false;  // of a pair
  for (const Timeline::Span& span : spans) {
    if (second)
      cells.back().label += action_label(span.action, chunks);
    else
      cells.push_back({action_label(span.action, chunks), span.start, span.end});
    second = span.action.with_next;
  }
  return cells;
}

size_t column(double time, double scale) { return static_cast<size_t>(std::llround(time * scale)); }

// Columns per unit of time at which every label, and a space after it, fits into its cell. Rounding the two ends of a
// cell does not make it narrower than that.
double scale_for_labels(const std::vector<std::vector<Cell>>& rows) {
  double scale = 0;
  for (const auto& row : rows)
    for (const Cell& cell : row)
      if (cell.end > cell.start)
        scale = std::max(scale, static_cast<double>(cell.label.size() + 1) / (cell.end - cell.start));
  return scale * (1 + 1e-9);
}

// The label, dashes up to the end, and a space, if there is one to spare.
std::string drawn(const std::string& label, size_t width) {
  std::string text = label.substr(0, width);
  if (text.size() < width) text += std::string(width - text.size() - 1, '-') + ' ';
  return text;
}

// The first and the last part of a row, as wide together as `most` with the mark between them.
std::string shortened(const std::string& row, size_t most) {
  if (most == 0 || row.size() <= most) return row;
  const size_t kept = most - std::min(most, kLeftOut.size()), first = kept / 2;
  return row.substr(0, first) + std::string(kLeftOut) + row.substr(row.size() - (kept - first));
}

}  // namespace

TimelineText timeline_text(const Timeline& timeline, const TextOptions& options) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& spans : timeline.ranks) rows.push_back(cells_of(spans, options.chunks));
  const double span = timeline.makespan > 0 ? timeline.makespan : 1;
  const double scale = options.columns > 0 ? options.columns / span : scale_for_labels(rows);
  const size_t width = column(timeline.makespan, scale), most = static_cast<size_t>(options.most_columns);
  const size_t digits = std::to_string(rows.size() - 1).size();

  TimelineText out{.text = {}, .whole = most == 0 || width <= most};
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::string row;
    for (const Cell& cell : rows[rank]) {
      const size_t begin = column(cell.start, scale), end = column(cell.end, scale);
      row += std::string(begin - row.size(), '.') + drawn(cell.label, end - begin);
    }
    row += std::string(width - row.size(), '.');
    out.text += fmt::format("rank {:<{}}  {}\n", rank, digits, shortened(row, most));
  }
  const std::string end = fmt::format("{:.6g}{}{}", timeline.makespan, options.unit.empty() ? "" : " ", options.unit);
  const size_t shown = out.whole ? width : most;
  out.text += fmt::format("{}0{:>{}}\n", std::string(7 + digits, ' '), end, std::max(shown, end.size() + 2) - 1);
  return out;
}

std::string waiting_text(const Timeline& timeline) {
  if (timeline.makespan <= 0) return "no rank waits";
  const auto [most, least] = std::ranges::minmax_element(timeline.busy);  // a rank that computes least waits most
  const auto percent = [&](double busy) { return fmt::format("{:.1f}%", 100 * (1 - busy / timeline.makespan)); };
  if (percent(*most) == percent(*least)) return fmt::format("every rank waits {} of the time", percent(*most));
  return fmt::format("rank {} waits longest, {} of the time; rank {} {}, the least", most - timeline.busy.begin(),
                     percent(*most), least - timeline.busy.begin(), percent(*least));
}

}  // namespace partita::internal
