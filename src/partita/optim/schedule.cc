#include "partita/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "partita/base/error.h"

namespace partita {
using namespace internal;
namespace {

double half_cosine(double r) { return 0.5 * (1 + std::cos(std::numbers::pi * r)); }

double wsd_factor(WsdStyle style, double r) {
  switch (style) {
    case WsdStyle::exponential:
      return 2 * std::exp2(-r) - 1;
    case WsdStyle::linear:
      return 1 - r;
    case WsdStyle::cosine:
      return half_cosine(r);
    case WsdStyle::one_minus_sqrt:
      return 1 - std::sqrt(r);
  }
  fail("unknown style {} of warmup-stable-decay", static_cast<int>(style));
}

// Progress of n from `begin` to `end`, clamped to 0 to 1.
double progress(int64_t n, int64_t begin, int64_t end) {
  if (n <= begin) return 0;
  return n >= end ? 1 : static_cast<double>(n - begin) / static_cast<double>(end - begin);
}

// The factor on (max - min) after the warmup.
double decay_factor(const Schedule& s, int64_t n) {
  switch (s.kind) {
    case ScheduleKind::cosine:
      return half_cosine(progress(n, s.warmup, s.length));
    case ScheduleKind::linear:
      return 1 - progress(n, s.warmup, s.length);
    case ScheduleKind::warmup_stable_decay:
      return wsd_factor(s.wsd_style, progress(n, std::max(s.warmup, s.length - s.wsd_decay), s.length));
    case ScheduleKind::constant:
    case ScheduleKind::inverse_square_root:
      break;
  }
  fail("schedule {} has no decay", static_cast<int>(s.kind));
}

}  // namespace

double learning_rate(const Schedule& s, int64_t n) {
  PARTITA_CHECK(n >= 1, "learning rate asked for step {}: steps count from 1", n);
  if (n <= s.warmup) return s.max * static_cast<double>(n) / static_cast<double>(s.warmup);
  switch (s.kind) {
    case ScheduleKind::constant:
      return s.max;
    case ScheduleKind::inverse_square_root: {
      const auto warmup = static_cast<double>(std::max<int64_t>(s.warmup, 1));
      return std::max(s.min, s.max * std::sqrt(warmup / static_cast<double>(n)));
    }
    default:
      return s.min + (s.max - s.min) * decay_factor(s, n);
  }
}

}  // namespace partita
