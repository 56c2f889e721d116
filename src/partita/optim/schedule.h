// Learning rate as a pure function of how far the run is, counted in steps or in samples.
//
//   Schedule schedule{.kind = ScheduleKind::cosine, .max = 6e-4, .min = 6e-5, .warmup = 100, .length = 10'000};
//   double first = learning_rate(schedule, 1);         // 6e-6: the first step, warmup n / 100
//   double last = learning_rate(schedule, 10'000);     // 6e-5
//
// `n` counts what the step ends at: the k-th step (from 1) runs at learning_rate(schedule, k), or, counted in samples,
// at learning_rate(schedule, samples consumed including its own). So the first step moves the weights and the last one
// of `length` reaches `min` exactly. Megatron-LM evaluates the same curves at what was consumed *before* the step: its
// first step runs at 0, and its step k + 1 at the rate of our step k.
#pragma once
#include <cstdint>

namespace partita {

enum class ScheduleKind : uint8_t { cosine, linear, constant, inverse_square_root, warmup_stable_decay };

// How warmup-stable-decay comes down; r goes from 0 to 1 over wsd_decay, the factor c on (max - min) from 1 to 0.
enum class WsdStyle : uint8_t {
  exponential,     // c = 2 * 0.5^r - 1
  linear,          // c = 1 - r
  cosine,          // c = (1 + cos(pi r)) / 2
  one_minus_sqrt,  // c = 1 - sqrt(r)
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double max = 0, min = 0;
  int64_t warmup = 0;     // linear from 0 (never evaluated there) to max
  int64_t length = 0;     // where the curve reaches min, warmup included; min from there on
  int64_t wsd_decay = 0;  // the last part of `length` in which warmup-stable-decay comes down
  WsdStyle wsd_style = WsdStyle::exponential;
};

// n >= 1. After the warmup, with r = (n - warmup) / (length - warmup):
//   cosine               min + (max - min) (1 + cos(pi r)) / 2
//   linear               min + (max - min) (1 - r)
//   constant             max, without an end
//   inverse square root  max(min, max sqrt(warmup / n)), without an end (Megatron-LM jumps to min at `length`);
//                        without a warmup, max / sqrt(n)
//   warmup-stable-decay  max, then down as WsdStyle says
[[nodiscard]] double learning_rate(const Schedule& schedule, int64_t n);

}  // namespace partita
