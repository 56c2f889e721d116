// Estimated duration of a run on CPUs, shown before its first step, from a measured matmul rate.
//
//   const double seconds = estimated_step_seconds(info);
//   log::info("{}", pace_text({.seconds = seconds, .steps = 600}, info));
//   // training 124.4M parameters on the CPU, 32.8k tokens per step: about 38 s per step, 6.3 h for 600 steps
#pragma once
#include <cstdint>
#include <string>

#include "partita/monitor/metrics.h"

namespace partita::internal {

struct Pace {
  double seconds = 0;  // per step
  int64_t steps = 0;   // remaining steps
};

// A step's FLOPs divided by half of all ranks' `peak_flops`, which is about what steps reach; 0 if the rate is unknown.
[[nodiscard]] double estimated_step_seconds(const RunInfo& info);

// Whether to correct the estimate: wrong by a factor of more than 1.5, and by enough time to notice.
[[nodiscard]] bool needs_correction(double estimated, double measured);

// Whether the run would take more than a week.
[[nodiscard]] bool exceeds_a_week(double seconds);

[[nodiscard]] std::string pace_text(const Pace& pace, const RunInfo& info);
// "a step takes 52 s: 8.6 h for the remaining 597 steps"
[[nodiscard]] std::string corrected_pace_text(double step_seconds, int64_t steps);
// Advice for a hopeless run.
[[nodiscard]] std::string pace_advice(bool built_for_cuda);

// "0.4 s", "38 s", "12 min", "6.3 h", "16 days", "3 years"
[[nodiscard]] std::string rough_duration(double seconds);

// Whether this program is built with GPU support.
[[nodiscard]] bool built_for_cuda();

}  // namespace partita::internal
