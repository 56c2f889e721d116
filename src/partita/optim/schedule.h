// Learning rate as a pure function of progress, in steps or samples.
//
//   Schedule schedule{.kind = ScheduleKind::cosine, .max = 6e-4, .min = 6e-5, .warmup = 100, .length = 10'000};
//   double first = learning_rate(schedule, 1);         // 6e-6: the first step, warmup n / 100
//   double last = learning_rate(schedule, 10'000);     // 6e-5
//
// `n` is the position at the end of the step: step k (from 1) runs at learning_rate(schedule, k) or, counted in
// samples, at learning_rate(schedule, samples consumed including its own). So the first step already moves the weights,
// and the last step of `length` reaches `min` exactly. Megatron-LM evaluates the same curves at the position *before*
// the step: its first step runs at 0, and its step k + 1 at the rate of step k here.
#pragma once
#include <cstdint>

#include "partita/base/enum_names.h"

namespace partita {

enum class ScheduleKind : uint8_t { cosine, linear, constant, inverse_square_root, warmup_stable_decay };
template <>
struct EnumNames<ScheduleKind> {
  static constexpr std::array kNames = {"cosine", "linear", "constant", "inverse-square-root", "warmup-stable-decay"};
};

// Decay of warmup-stable-decay: r goes from 0 to 1 over wsd_decay, the factor c on (max - min) from 1 to 0.
enum class WsdStyle : uint8_t {
  exponential,     // c = 2 * 0.5^r - 1
  linear,          // c = 1 - r
  cosine,          // c = (1 + cos(pi r)) / 2
  one_minus_sqrt,  // c = 1 - sqrt(r)
};
template <>
struct EnumNames<WsdStyle> {
  static constexpr std::array kNames = {"exponential", "linear", "cosine", "one-minus-sqrt"};
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double max = 0, min = 0;
  int64_t warmup = 0;     // linear from 0 (never evaluated there) to max
  int64_t length = 0;     // where the curve reaches min, including warmup; min from there on
  int64_t wsd_decay = 0;  // final part of `length` in which warmup-stable-decay decays
  WsdStyle wsd_style = WsdStyle::exponential;
};

// n >= 1. After the warmup, with r = (n - warmup) / (length - warmup):
//   cosine               min + (max - min) (1 + cos(pi r)) / 2
//   linear               min + (max - min) (1 - r)
//   constant             max, forever
//   inverse square root  max(min, max sqrt(warmup / n)), forever (Megatron-LM jumps to min at `length`);
//                        without a warmup, max / sqrt(n)
//   warmup-stable-decay  max, then decays according to WsdStyle
[[nodiscard]] double learning_rate(const Schedule& schedule, int64_t n);

}  // namespace partita
