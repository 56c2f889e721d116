// Profiles a few steps of a run: a trace for Perfetto (ui.perfetto.dev) or Chrome, and a table of time by kernel family
// with lower bounds.
//
//   Profiler profiler({.device = device, .trace = run / "profile.json", .table = run / "profile.txt", .work = work});
//   while (...) {
//     profiler.before_step();
//     engine.step(...);
//     profiler.after_step();     // after the last profiled step: writes both files, logs the table
//   }
//
// On a GPU the trace has every kernel and copy by stream, together with host activity; on the CPU, only the latter.
// Outside the profiled steps it costs nothing.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/base/trace.h"
#include "partita/device/device_trace.h"
#include "partita/profile/kernel_families.h"

namespace partita::internal {

struct Profile {
  int64_t steps = 0;
  std::vector<HostSpan> host;      // spans named "step" are the steps
  std::vector<DeviceSpan> device;  // empty on the CPU
};

// Trace Event Format (JSON); times in microseconds since the first event.
[[nodiscard]] std::string chrome_trace(const Profile&);

// On a GPU: milliseconds per step, share of the step and floor of each family, largest first; unclassified kernels by
// name; idle time. Kernels running concurrently on several streams each count fully. On the CPU: the same for host
// activity, without floors.
[[nodiscard]] std::string profile_table(const Profile&, const StepWork&);

class Profiler {
 public:
  struct Options {
    c10::Device device = c10::kCPU;
    std::filesystem::path trace, table;
    int64_t steps = 0;  // 0: no profile
    int64_t after = 5;  // steps to skip first, until memory, plans and clocks settle
    StepWork work;
  };
  explicit Profiler(Options options) : options_(std::move(options)) {}

  void before_step();
  void after_step();
  [[nodiscard]] bool done() const { return options_.steps == 0 || step_ >= options_.after + options_.steps; }

 private:
  Options options_;
  int64_t step_ = 0, begin_ = 0;
  std::vector<HostSpan> steps_;
};

}  // namespace partita::internal
