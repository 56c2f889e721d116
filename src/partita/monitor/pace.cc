#include "partita/monitor/pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "partita/monitor/progress.h"

namespace partita::internal {
namespace {

// Fraction of the rate of one large matmul that whole steps of small and medium-sized models reach on CPUs
// (docs/monitoring.md).
constexpr double kReached = 0.5;

constexpr double kMinute = 60, kHour = 3600, kDay = 86400, kYear = 365.25 * kDay;

}  // namespace

double estimated_step_seconds(const RunInfo& info) {
  const double rate = info.peak_flops * info.ranks * kReached;
  return rate > 0 ? info.flops_per_token * static_cast<double>(info.tokens_per_step) / rate : 0;
}

bool needs_correction(double estimated, double measured) {
  return measured > 0.5 && (measured > 1.5 * estimated || estimated > 1.5 * measured);
}

bool exceeds_a_week(double seconds) { return seconds > 7 * kDay; }

std::string pace_text(const Pace& pace, const RunInfo& info) {
  return fmt::format("training {} parameters on the CPU, {} tokens per step: about {} per step, {} for {} step{}",
                     human_count(static_cast<double>(info.trained_parameters)),
                     human_count(static_cast<double>(info.tokens_per_step)), rough_duration(pace.seconds),
                     rough_duration(pace.seconds * static_cast<double>(pace.steps)), pace.steps,
                     pace.steps == 1 ? "" : "s");
}

std::string corrected_pace_text(double step_seconds, int64_t steps) {
  return fmt::format("a step takes {}: {} for the remaining {} step{}", rough_duration(step_seconds),
                     rough_duration(step_seconds * static_cast<double>(steps)), steps, steps == 1 ? "" : "s");
}

std::string pace_advice(bool built_for_cuda) {
  return fmt::format(
      "this run is far too long for this machine: lower model.layers, model.hidden_size, train.global_batch or "
      "train.steps, or {}",
      built_for_cuda ? "use a GPU (train.device=cuda)"
                     : "use a GPU (this program is built without CUDA; PARTITA_CUDA=1 make setup build has it)");
}

std::string rough_duration(double seconds) {
  if (!(seconds < 1000 * kYear)) return "more than 1000 years";
  const auto shown = [](double value, const char* unit) {
    return value < 9.95 ? fmt::format("{:.1f} {}", value, unit) : fmt::format("{:.0f} {}", value, unit);
  };
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", std::max(seconds * 1e3, 1.0));
  if (seconds < 2 * kMinute) return shown(seconds, "s");
  if (seconds < 2 * kHour) return shown(seconds / kMinute, "min");
  if (seconds < 2 * kDay) return shown(seconds / kHour, "h");
  if (seconds < 2 * kYear) return shown(seconds / kDay, "days");
  return shown(seconds / kYear, "years");
}

bool built_for_cuda() {
#ifdef PARTITA_CUDA
  return true;
#else
  return false;
#endif
}

}  // namespace partita::internal
