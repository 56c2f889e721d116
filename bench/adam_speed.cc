// Speed of AdamW on host memory as offloaded states have it (huge pages), and of a copy that bypasses the caches.
// bench/compare_adam.py runs it beside PyTorch and DeepSpeed.
//
//   OMP_NUM_THREADS=2 adam_speed --mi 1,16 --seconds 0.5
//
// Prints {"copy_gb_s": 20.1, "check": 0.24, "fp32": {"1": ms, "16": ms}, "bf16": {...}}: the copy's rate over the most
// elements; the mean of |master| after three steps from the values below, which the peers must reach, too; medians of a
// step's milliseconds by Mi elements. bf16: states and gradients in fp32, weights rounded to bf16 by the same step.
#include <ATen/Parallel.h>
#include <emmintrin.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/base/log.h"
#include "partita/device/host_memory.h"
#include "partita/ops/adamw.h"

namespace partita::internal {
namespace {

constexpr int kLeastSteps = 3;
constexpr int64_t kPeriod = 4096;

struct Arguments {
  std::vector<int64_t> mi = {1, 16, 100};
  double seconds = 0.5;
};

struct Operands {
  explicit Operands(int64_t n)
      : master(host_zeros(n, DType::fp32)),
        m(host_zeros(n, DType::fp32)),
        v(host_zeros(n, DType::fp32)),
        gradient(host_zeros(n, DType::fp32)),
        weight(host_zeros(n, DType::bf16)) {}

  // The values of bench/peer/adam.py.
  void fill() const {
    at::parallel_for(0, master.numel(), kPeriod, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i % kPeriod;
        master.mutable_data_ptr<float>()[i] = static_cast<float>(at * 7919 % kPeriod) / kPeriod - 0.5F;
        gradient.mutable_data_ptr<float>()[i] = static_cast<float>(at * 4423 % kPeriod) / kPeriod - 0.5F;
      }
    });
    m.zero_();
    v.zero_();
  }

  void step(int64_t n, bool bf16, int64_t update) const {
    const auto first = [n](const at::Tensor& t) { return t.narrow(0, 0, n); };
    const StepScalars now{.step = update, .update = update, .learning_rate = 1e-3F};
    adamw_step(first(master), first(m), first(v), first(gradient), bf16 ? first(weight) : first(master),
               {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}, &now);
  }

  at::Tensor master, m, v, gradient, weight;
};

// The median of at least kLeastSteps calls, in seconds.
double median_time(double seconds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  std::vector<double> times;
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const Clock::time_point first = Clock::now();
  do {
    const Clock::time_point begin = Clock::now();
    work();
    times.push_back(since(begin));
  } while (static_cast<int>(times.size()) < kLeastSteps || since(first) < seconds);
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// Stores past the caches, so that lines that are only written are not read.
void copy(const at::Tensor& from, const at::Tensor& to) {
  const auto* source = from.const_data_ptr<float>();
  auto* target = to.mutable_data_ptr<float>();
  at::parallel_for(0, from.numel() / kPeriod, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kPeriod; i < end * kPeriod; i += 4) _mm_stream_ps(target + i, _mm_load_ps(source + i));
    _mm_sfence();
  });
}

double mean_magnitude(const at::Tensor& values) {
  double sum = 0;
  for (int64_t i = 0; i < values.numel(); ++i) sum += std::abs(static_cast<double>(values.const_data_ptr<float>()[i]));
  return sum / static_cast<double>(values.numel());
}

nlohmann::json measure(const Arguments& a) {
  const int64_t most = *std::ranges::max_element(a.mi) << 20;
  const Operands o(most);
  o.fill();
  nlohmann::json result;
  result["copy_gb_s"] =
      2.0 * static_cast<double>(o.v.nbytes()) / 1e9 / median_time(a.seconds, [&] { copy(o.gradient, o.v); });
  o.fill();
  int64_t update = 0;
  while (update < 3) o.step(kPeriod, true, update++);
  result["check"] = mean_magnitude(o.master.narrow(0, 0, kPeriod));
  for (const int64_t mi : a.mi)
    for (const bool bf16 : {false, true})
      result[bf16 ? "bf16" : "fp32"][std::to_string(mi)] =
          1e3 * median_time(a.seconds, [&] { o.step(mi << 20, bf16, update++); });
  return result;
}

}  // namespace
}  // namespace partita::internal

int main(int count, char** words) try {
  CLI::App app("Speed of AdamW on host memory, in ms a step");
  partita::internal::Arguments a;
  app.add_option("--mi", a.mi, "Mi elements (2^20) of each size")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--seconds", a.seconds, "of each measurement at least")->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, count, words);
  std::cout << partita::internal::measure(a).dump() << std::endl;
} catch (const std::exception& error) {
  partita::log::error("{}", error.what());
  return 1;
}
