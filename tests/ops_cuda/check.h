// Shared by the checks of device kernels: the reference is the same call on CPU tensors.
//
//   Report report;
//   expect_close(report, "norm bf16 [6, 33]", on_device_result, cpu_result, one_rounding(at::kBFloat16));
//   return report.finish();                                                // prints the sums; exit code
#pragma once
#include <ATen/core/Tensor.h>

#include <cstring>
#include <functional>
#include <string>

#include "partita/ops/step_scalars.h"

namespace partita::internal::ops_cuda {

inline constexpr at::ScalarType kDTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

class Report {
 public:
  // Prints a line, and counts.
  void add(bool passed, const std::string& name, const std::string& what);
  [[nodiscard]] int finish() const;

 private:
  int passed_ = 0, failed_ = 0;
};

// |actual - expected| <= relative * (|expected| + root mean square of all expected), for every element; NaN nowhere.
void expect_close(Report&, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                  double relative);
// The same bound, and the root mean square of the errors, each relative as above, is at most `typical`: of values that
// are rounded on the way, where the worst of a million is several times the typical one, and would hide a fault of all.
void expect_rounded(Report&, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                    double typical, double relative);
// |actual - expected| <= relative * magnitudes: of sums whose terms cancel, with the sums of their magnitudes.
void expect_sum(Report&, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                const at::Tensor& magnitudes, double relative);
void expect_same_bits(Report&, const std::string& name, const at::Tensor& actual, const at::Tensor& expected);
// run() throws an Error whose text has `text` in it.
void expect_error(Report&, const std::string& name, const std::string& text, const std::function<void()>& run);

// What two roundings to the dtype may differ by, or two orders of fp32 arithmetic.
[[nodiscard]] double one_rounding(at::ScalarType);

// What all numbers are drawn from: the same in every run with the same seed, which is the second argument of a program,
// or
// 1. torch begins with another seed in every run.
void seed_numbers(int count, char** arguments);
// Normal numbers on the CPU, other ones in each call.
[[nodiscard]] at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, double mean = 0, double std = 1);
// 0 .. limit - 1, int32.
[[nodiscard]] at::Tensor integers(at::IntArrayRef shape, int64_t limit);
[[nodiscard]] at::Tensor nan(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat);

// A copy on the device (undefined stays undefined) that begins `offset` elements behind a multiple of 16 bytes.
[[nodiscard]] at::Tensor to_device(const at::Tensor&, int64_t offset = 0);

// A StepScalars in memory of the device.
class DeviceScalars {
 public:
  explicit DeviceScalars(const StepScalars&);
  [[nodiscard]] const StepScalars* get() const { return static_cast<const StepScalars*>(memory_.const_data_ptr()); }

 private:
  at::Tensor memory_;
};

[[nodiscard]] std::string text_of(at::ScalarType, at::IntArrayRef shape);

// Prints microseconds (the median of 20 calls, each between events), GB/s and the share of the copy rate.
void time_kernel(const std::string& name, double bytes, const std::function<void()>& run);

}  // namespace partita::internal::ops_cuda
