#include "partita/monitor/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/duration.h"
#include "partita/base/number.h"

namespace partita::internal {
namespace {

int64_t percent(const Progress& p) { return p.steps > 0 ? std::clamp<int64_t>(100 * p.step / p.steps, 0, 100) : 0; }

// Empty: of no tokens.
std::string rate_text(const Progress& p) {
  return p.tokens_per_second > 0 ? human_count(p.tokens_per_second) + " tok/s" : "";
}

}  // namespace

double Progress::seconds_left() const {
  const int64_t done = step - first_step;
  if (done <= 0) return -1;
  return seconds / static_cast<double>(done) * static_cast<double>(std::max<int64_t>(steps - step, 0));
}

std::string progress_bar(const Progress& p, int width) {
  const std::string head = fmt::format("{:3d}%", percent(p)), place = fmt::format("{}/{}", p.step, p.steps),
                    loss = fmt::format("loss {:.3f}", plain_nan(p.loss)), rate = rate_text(p),
                    eta = "ETA " + human_duration(p.seconds_left());
  // From all figures down to the fewest, for narrow terminals.
  for (const std::string& tail : {fmt::format("{}  {}{}  {}", place, loss, rate.empty() ? "" : "  " + rate, eta),
                                  fmt::format("{}  {}  {}", place, loss, eta), fmt::format("{}  {}", loss, eta), eta}) {
    constexpr int kAround = 4, kLeast = 10, kMost = 40;  // " [] "
    const int free = width - static_cast<int>(head.size() + tail.size());
    if (free < 1) continue;
    const int room = std::min(free - kAround, kMost);
    if (room < kLeast) return head + " " + tail;
    const int filled = p.steps > 0 ? static_cast<int>(std::clamp<int64_t>(room * p.step / p.steps, 0, room)) : 0;
    return head + " [" + std::string(static_cast<size_t>(filled), '#') +
           std::string(static_cast<size_t>(room - filled), '.') + "] " + tail;
  }
  return width >= static_cast<int>(head.size()) ? head : "";
}

std::string progress_text(const Progress& p) {
  const std::string rate = rate_text(p);
  return fmt::format("step {} of {} ({}%), loss {:.3f},{}{} ETA {}", p.step, p.steps, percent(p), plain_nan(p.loss),
                     rate.empty() ? "" : " " + rate, rate.empty() ? "" : ",", human_duration(p.seconds_left()));
}

std::string human_count(double value) {
  if (value < 999.5) return fmt::format("{:.0f}", value);
  if (value < 999.95e3) return fmt::format("{:.1f}k", value * 1e-3);
  if (value < 999.995e6) return fmt::format("{:.2f}M", value * 1e-6);
  return fmt::format("{:.2f}G", value * 1e-9);
}

}  // namespace partita::internal
