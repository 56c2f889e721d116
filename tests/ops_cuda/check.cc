#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/ops/cuda/check.h"
#include "tests/ops_cuda/check.h"

namespace partita::internal::ops_cuda {

void Report::add(bool passed, const std::string& name, const std::string& what) {
  (passed ? passed_ : failed_) += 1;
  fmt::print("{} {}: {}\n", passed ? "ok  " : "FAIL", name, what);
  if (!passed) std::fflush(stdout);
}

int Report::finish() const {
  fmt::print("{} passed, {} failed\n", passed_, failed_);
  return failed_ == 0 ? 0 : 1;
}

namespace {

struct Errors {
  double worst = 0, typical = 0;
  int64_t at = -1;  // of the worst; -1: none, or the shapes differ
  double found = 0, wanted = 0;
};

// scale[i]: what the error of element i is relative to.
Errors errors_of(const at::Tensor& actual, const at::Tensor& expected, const std::function<double(int64_t)>& scale) {
  Errors errors;
  const double *found = actual.const_data_ptr<double>(), *wanted = expected.const_data_ptr<double>();
  double squares = 0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double error = std::abs(found[i] - wanted[i]) / (scale(i) + 1e-30);
    squares += error * error;
    if (!(error <= errors.worst))  // NaN too
      errors = {.worst = error, .at = i, .found = found[i], .wanted = wanted[i]};
    if (std::isnan(error)) break;
  }
  errors.typical = std::sqrt(squares / static_cast<double>(std::max<int64_t>(expected.numel(), 1)));
  return errors;
}

// Root mean square.
double size_of(const at::Tensor& values) {
  const double* data = values.const_data_ptr<double>();
  double squares = 0;
  for (int64_t i = 0; i < values.numel(); ++i) squares += data[i] * data[i];
  return std::sqrt(squares / static_cast<double>(std::max<int64_t>(values.numel(), 1)));
}

// Both in fp64 on the CPU; false, and a failed check, where the shapes differ.
bool widen(Report& report, const std::string& name, at::Tensor& actual, at::Tensor& expected) {
  actual = actual.cpu().to(at::kDouble).contiguous(), expected = expected.cpu().to(at::kDouble).contiguous();
  if (actual.sizes() == expected.sizes()) return true;
  report.add(
      false, name,
      fmt::format("shape [{}] instead of [{}]", fmt::join(actual.sizes(), ", "), fmt::join(expected.sizes(), ", ")));
  return false;
}

std::string text_of(const Errors& e, double relative) {
  return fmt::format("element {}: {} instead of {}, error {:.1e}, allowed {:.1e}", e.at, e.found, e.wanted, e.worst,
                     relative);
}

}  // namespace

void expect_close(Report& report, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                  double relative) {
  at::Tensor a = actual, e = expected;
  if (!widen(report, name, a, e)) return;
  const double size = size_of(e), *wanted = e.const_data_ptr<double>();
  const Errors errors = errors_of(a, e, [&](int64_t i) { return std::abs(wanted[i]) + size; });
  const bool passed = errors.worst <= relative;
  report.add(passed, name, passed ? fmt::format("error {:.1e}", errors.worst) : text_of(errors, relative));
}

void expect_rounded(Report& report, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                    double typical, double relative) {
  at::Tensor a = actual, e = expected;
  if (!widen(report, name, a, e)) return;
  const double size = size_of(e), *wanted = e.const_data_ptr<double>();
  const Errors errors = errors_of(a, e, [&](int64_t i) { return std::abs(wanted[i]) + size; });
  report.add(
      errors.worst <= relative && errors.typical <= typical, name,
      fmt::format("typical error {:.1e} of {:.1e}, {}", errors.typical, typical,
                  errors.worst <= relative ? fmt::format("error {:.1e}", errors.worst) : text_of(errors, relative)));
}

void expect_sum(Report& report, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                const at::Tensor& magnitudes, double relative) {
  at::Tensor a = actual, e = expected;
  if (!widen(report, name, a, e)) return;
  const at::Tensor m = magnitudes.to(at::kDouble).contiguous();
  const Errors errors = errors_of(a, e, [&](int64_t i) { return m.const_data_ptr<double>()[i]; });
  const bool passed = errors.worst <= relative;
  report.add(passed, name,
             passed ? fmt::format("error {:.1e} of {:.1e}", errors.worst, relative) : text_of(errors, relative));
}

void expect_same_bits(Report& report, const std::string& name, const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.cpu().contiguous(), e = expected.cpu().contiguous();
  const bool same_form = a.sizes() == e.sizes() && a.scalar_type() == e.scalar_type();
  int64_t different = same_form ? 0 : -1;
  const auto size = static_cast<size_t>(e.element_size());
  const auto *x = static_cast<const std::byte*>(a.const_data_ptr()),
             *y = static_cast<const std::byte*>(e.const_data_ptr());
  for (int64_t i = 0; same_form && i < e.numel(); ++i)
    different += std::memcmp(x + static_cast<size_t>(i) * size, y + static_cast<size_t>(i) * size, size) != 0;
  report.add(different == 0, name, different == 0 ? "same bits" : fmt::format("{} of {} differ", different, e.numel()));
}

void expect_error(Report& report, const std::string& name, const std::string& text, const std::function<void()>& run) {
  std::string found = "no error";
  try {
    run();
  } catch (const std::exception& error) {
    found = error.what();
  }
  report.add(found.find(text) != std::string::npos, name, found);
}

double one_rounding(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kBFloat16 ? 1.0 / 128 : 1.0 / 1024;
}

void seed_numbers(int count, char** arguments) {
  const uint64_t seed = count > 2 ? std::stoull(arguments[2]) : 1;
  fmt::print("numbers of seed {}\n", seed);
  at::manual_seed(seed);
}

at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, double mean, double std) {
  return (at::randn(shape, at::TensorOptions(at::kFloat)) * std + mean).to(dtype);
}
at::Tensor integers(at::IntArrayRef shape, int64_t limit) {
  return at::randint(limit, shape, at::TensorOptions(at::kInt));
}
at::Tensor nan(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::full(shape, std::numeric_limits<double>::quiet_NaN(), at::TensorOptions(dtype));
}

at::Tensor to_device(const at::Tensor& tensor, int64_t offset) {
  if (!tensor.defined()) return {};
  const at::Tensor memory = at::empty({tensor.numel() + offset}, tensor.options().device(at::kCUDA));
  at::Tensor copy = memory.narrow(0, offset, tensor.numel()).view(tensor.sizes());
  copy.copy_(tensor);
  return copy;
}

DeviceScalars::DeviceScalars(const StepScalars& now)
    : memory_(at::empty({static_cast<int64_t>(sizeof(now))}, at::TensorOptions(at::kByte).device(at::kCUDA))) {
  PARTITA_CUDA_CHECK(cudaMemcpy(memory_.mutable_data_ptr(), &now, sizeof(now), cudaMemcpyHostToDevice));
}

std::string text_of(at::ScalarType dtype, at::IntArrayRef shape) {
  return fmt::format("{} [{}]",
                     dtype == at::kFloat      ? "fp32"
                     : dtype == at::kBFloat16 ? "bf16"
                                              : "fp16",
                     fmt::join(shape, ", "));
}

void time_kernel(const std::string& name, double bytes, const std::function<void()>& run) {
  constexpr double kCopyRate = 3.0e12;  // of an H100, read and write
  constexpr int kRuns = 20;
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  for (int i = 0; i < 3; ++i) run();
  std::vector<cudaEvent_t> events(kRuns + 1);
  for (cudaEvent_t& event : events) PARTITA_CUDA_CHECK(cudaEventCreate(&event));
  PARTITA_CUDA_CHECK(cudaEventRecord(events[0], stream));
  for (size_t i = 1; i < events.size(); ++i) {
    run();
    PARTITA_CUDA_CHECK(cudaEventRecord(events[i], stream));
  }
  PARTITA_CUDA_CHECK(cudaStreamSynchronize(stream));
  std::vector<float> milliseconds(kRuns);
  for (size_t i = 0; i < milliseconds.size(); ++i)
    PARTITA_CUDA_CHECK(cudaEventElapsedTime(&milliseconds[i], events[i], events[i + 1]));
  for (cudaEvent_t event : events) PARTITA_CUDA_CHECK(cudaEventDestroy(event));
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
  const double seconds = milliseconds[kRuns / 2] * 1e-3;
  fmt::print("{:<58} {:9.1f} us {:7.0f} GB/s {:5.1f}% of copy\n", name, seconds * 1e6, bytes / seconds * 1e-9,
             bytes / seconds / kCopyRate * 100);
}

}  // namespace partita::internal::ops_cuda
