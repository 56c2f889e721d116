// Human-readable durations, for progress and reports.
//
//   human_duration(140)   // "2:20"
#pragma once
#include <string>

namespace partita::internal {

// "0:07", "12:34", "3:02:01", "2d 03:02"; "?" for a negative or infinite time.
[[nodiscard]] std::string human_duration(double seconds);

}  // namespace partita::internal
