#include "partita/train/start_times.h"

#include <fmt/format.h>

namespace partita::internal {

std::string StartTimes::text() const {
  double total = 0;
  std::string parts;
  for (const auto& [phase, seconds] : phases_) {
    total += seconds;
    parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", phase, seconds);
  }
  return fmt::format("first step after {:.2f} s: {}", total, parts);
}

}  // namespace partita::internal
