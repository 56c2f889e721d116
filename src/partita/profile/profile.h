// A picture of a few steps of a run: a trace that Perfetto (ui.perfetto.dev) and Chrome open, and a table of the time
// by kernel family beside its floor.
//
//   Profiler profiler({.device = device, .trace = run / "profile.json", .table = run / "profile.txt", .work = work});
//   while (...) {
//     profiler.before_step();
//     engine.step(...);
//     profiler.after_step();     // behind the last of its steps: writes both files, and shows the table
//   }
//
// On a device the trace has every kernel and copy by stream beside what the host was doing; on the CPU the latter
// alone. Outside its steps it costs nothing.
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
  std::vector<HostSpan> host;      // those called "step" are the steps
  std::vector<DeviceSpan> device;  // empty on the CPU
};

// Trace Event Format (JSON), times in microseconds from the first event on.
[[nodiscard]] std::string chrome_trace(const Profile&);

// On a device: milliseconds a step, share of the step and floor of each family, the largest first, the kernels that
// belong to none by name, and the time in which nothing ran. Kernels of several streams that run at once count each. On
// the CPU: the same of what the host did, without floors.
[[nodiscard]] std::string profile_table(const Profile&, const StepWork&);

class Profiler {
 public:
  struct Options {
    c10::Device device = c10::kCPU;
    std::filesystem::path trace, table;
    int64_t steps = 0;  // 0: no profile
    int64_t after = 5;  // steps before the first, in which memory, plans and clocks settle
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
