#include "partita/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace {

constexpr std::string_view kStep = "step";

// Trace events show the host as one process and the device as another, with one thread per stream.
constexpr int kHost = 0, kDevice = 1;

nlohmann::json event(const std::string& name, int process, int thread, int64_t begin, int64_t end) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", process},
          {"tid", thread},
          {"ts", static_cast<double>(begin) * 1e-3},
          {"dur", static_cast<double>(end - begin) * 1e-3}};
}

nlohmann::json process_name(int process, const char* name) {
  return {{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", name}}}};
}

std::string_view family_of(const DeviceSpan& span) {
  return span.work == DeviceWork::kernel ? kernel_family(span.name) : family::kCopies;
}

// "forward block 3" becomes "forward block".
std::string without_index(const std::string& name) {
  const size_t last = name.find_last_not_of("0123456789");
  return last + 1 < name.size() && name[last] == ' ' ? name.substr(0, last) : name;
}

// Nanoseconds during which at least one span ran; spans are sorted by start time.
int64_t covered(std::span<const DeviceSpan> spans) {
  int64_t sum = 0, until = INT64_MIN;
  for (const DeviceSpan& span : spans) {
    sum += std::max<int64_t>(0, span.end - std::max(span.begin, until));
    until = std::max(until, span.end);
  }
  return sum;
}

struct Row {
  std::string name;
  int64_t nanoseconds = 0, calls = 0;
};

template <class Spans, class NameOf>
std::vector<Row> rows_of(const Spans& spans, const NameOf& name_of) {
  std::map<std::string, Row> by_name;
  for (const auto& span : spans) {
    std::string name(name_of(span));
    if (name.empty()) continue;
    Row& row = by_name[name];
    row.nanoseconds += span.end - span.begin, ++row.calls;
    row.name = std::move(name);
  }
  std::vector<Row> rows;
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, std::ranges::greater(), &Row::nanoseconds);
  return rows;
}

class Table {
 public:
  explicit Table(const Profile& profile) : steps_(static_cast<double>(std::max<int64_t>(profile.steps, 1))) {
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const HostSpan& span : profile.host)
      if (span.name == kStep) begin = std::min(begin, span.begin), end = std::max(end, span.end);
    if (begin < end) whole_ = end - begin;
  }

  [[nodiscard]] double milliseconds(int64_t nanoseconds) const {
    return static_cast<double>(nanoseconds) * 1e-6 / steps_;
  }
  [[nodiscard]] int64_t whole() const { return whole_; }

  void heading(std::string_view of, bool floors) {
    text_ += fmt::format("{:<28} {:>10} {:>8} {:>9}", of, "ms a step", "share", "calls");
    if (floors) text_ += fmt::format(" {:>10} {:>8}", "floor, ms", "to floor");
    text_ += '\n';
  }
  // floor: milliseconds; 0: no floor.
  void row(const Row& row, double floor = 0) {
    const double ms = milliseconds(row.nanoseconds);
    text_ += fmt::format("{:<28} {:>10.3f} {:>7.1f}% {:>9.1f}", row.name, ms, share(row.nanoseconds),
                         static_cast<double>(row.calls) / steps_);
    if (floor > 0) text_ += fmt::format(" {:>10.3f} {:>8.2f}", floor, ms / floor);
    text_ += '\n';
  }
  void line(const std::string& line) { text_ += line + '\n'; }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  [[nodiscard]] double share(int64_t nanoseconds) const {
    return whole_ > 0 ? 100 * static_cast<double>(nanoseconds) / static_cast<double>(whole_) : 0;
  }

  double steps_;
  int64_t whole_ = 0;
  std::string text_;
};

}  // namespace

std::string chrome_trace(const Profile& profile) {
  int64_t first = INT64_MAX;
  for (const HostSpan& span : profile.host) first = std::min(first, span.begin);
  for (const DeviceSpan& span : profile.device) first = std::min(first, span.begin);
  nlohmann::json events = nlohmann::json::array({process_name(kHost, "host")});
  if (!profile.device.empty()) events.push_back(process_name(kDevice, "device, a line a stream"));
  for (const HostSpan& span : profile.host)
    events.push_back(event(span.name, kHost, 0, span.begin - first, span.end - first));
  for (const DeviceSpan& span : profile.device) {
    nlohmann::json entry = event(span.name, kDevice, span.stream, span.begin - first, span.end - first);
    entry["cat"] = family_of(span);
    if (span.bytes > 0) entry["args"] = {{"bytes", span.bytes}};
    events.push_back(std::move(entry));
  }
  return nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

std::string profile_table(const Profile& profile, const StepWork& work) {
  Table table(profile);
  table.line(fmt::format("{} steps of {:.3f} ms, {} tokens each on this rank", profile.steps,
                         table.milliseconds(table.whole()), work.tokens));
  if (profile.device.empty()) {
    table.heading("what the host did", false);
    for (const Row& row : rows_of(
             profile.host, [](const HostSpan& s) { return s.name == kStep ? std::string() : without_index(s.name); }))
      table.row(row);
    return std::move(table).text();
  }
  const std::map<std::string_view, double> floors = family_floors(work);
  table.heading("kernels", true);
  double sum = 0;
  for (const Row& row : rows_of(profile.device, family_of)) {
    const auto floor = floors.find(row.name);
    table.row(row, floor != floors.end() ? 1e3 * floor->second : 0);
  }
  for (const auto& [name, seconds] : floors) sum += 1e3 * seconds;
  const int64_t busy = covered(profile.device);
  table.row({.name = "nothing ran", .nanoseconds = std::max<int64_t>(0, table.whole() - busy), .calls = 0});
  table.row({.name = "step", .nanoseconds = table.whole(), .calls = profile.steps}, sum);
  std::vector<DeviceSpan> others;
  std::ranges::copy_if(profile.device, std::back_inserter(others),
                       [](const DeviceSpan& s) { return family_of(s) == family::kOther; });
  if (!others.empty()) table.line("other kernels:");
  for (const Row& row : rows_of(others, [](const DeviceSpan& s) { return s.name; }))
    table.line(fmt::format("  {:>9.3f} ms a step, {:.1f} calls: {}", table.milliseconds(row.nanoseconds),
                           static_cast<double>(row.calls) / static_cast<double>(std::max<int64_t>(profile.steps, 1)),
                           row.name));
  return std::move(table).text();
}

void Profiler::before_step() {
  if (done()) return;
  if (step_ == options_.after) {
    start_device_trace(options_.device);
    trace::start();
  }
  begin_ = trace::now();
}

void Profiler::after_step() {
  if (done()) return;
  if (step_ >= options_.after) steps_.push_back({.name = std::string(kStep), .begin = begin_, .end = trace::now()});
  ++step_;
  if (!done()) return;
  Profile profile{.steps = options_.steps, .host = trace::stop(), .device = stop_device_trace(options_.device)};
  // The last step ends when the device has finished its work.
  if (!profile.device.empty()) {
    int64_t last = 0;
    for (const DeviceSpan& span : profile.device) last = std::max(last, span.end);
    steps_.back().end = std::max(steps_.back().end, last);
  }
  std::ranges::move(steps_, std::back_inserter(profile.host));
  const std::string table = profile_table(profile, options_.work);
  write_file(options_.trace, chrome_trace(profile));
  write_file(options_.table, table);
  log::info("{} opens in ui.perfetto.dev; the table is in {}", options_.trace.string(), options_.table.string());
  log::print(table);
}

}  // namespace partita::internal
