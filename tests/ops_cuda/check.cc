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
#include <vector>

#include "partita/base/error.h"
#include "partita/ops/cuda/check.h"
#include "tests/ops_cuda/check.h"

namespace partita::ops_cuda {

void Report::add(bool passed, const std::string& name, const std::string& what) {
  (passed ? passed_ : failed_) += 1;
  fmt::print("{} {}: {}\n", passed ? "ok  " : "FAIL", name, what);
  if (!passed) std::fflush(stdout);
}

int Report::finish() const {
  fmt::print("{} passed, {} failed\n", passed_, failed_);
  return failed_ == 0 ? 0 : 1;
}

void expect_close(Report& report, const std::string& name, const at::Tensor& actual, const at::Tensor& expected,
                  double relative) {
  const at::Tensor a = actual.cpu().to(at::kDouble).contiguous(), e = expected.to(at::kDouble).contiguous();
  if (a.sizes() != e.sizes())
    return report.add(
        false, name, fmt::format("shape [{}] instead of [{}]", fmt::join(a.sizes(), ", "), fmt::join(e.sizes(), ", ")));
  const double *found = a.const_data_ptr<double>(), *wanted = e.const_data_ptr<double>();
  double squares = 0, worst = 0;
  for (int64_t i = 0; i < e.numel(); ++i) squares += wanted[i] * wanted[i];
  const double scale = e.numel() > 0 ? std::sqrt(squares / static_cast<double>(e.numel())) : 0;
  int64_t at = -1;
  for (int64_t i = 0; i < e.numel(); ++i) {
    const double bound = std::abs(wanted[i]) + scale + 1e-30;
    const double error = std::abs(found[i] - wanted[i]) / bound;
    if (!(error <= worst)) worst = error, at = i;  // NaN too
    if (std::isnan(error)) break;
  }
  const bool passed = worst <= relative;
  report.add(passed, name,
             passed ? fmt::format("error {:.1e}", worst)
                    : fmt::format("element {}: {} instead of {}, error {:.1e}, allowed {:.1e}", at, found[at],
                                  wanted[at], worst, relative));
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

}  // namespace partita::ops_cuda
