// Host-side launch helpers for activation and flat-buffer kernels: C++ types from dtypes, alignment, launch sizes.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "partita/ops/cuda/check.h"

// Checks for launch errors.
#define PARTITA_LAUNCHED() PARTITA_CUDA_CHECK(cudaGetLastError())

namespace partita::internal::cuda {

inline constexpr int kThreads = 256;  // threads per block of element-wise kernels

[[nodiscard]] inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks needed for `threads` threads, at least one.
[[nodiscard]] inline unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(divide_up(threads > 0 ? threads : 1, kThreads));
}

// Calls f(T{}) with the C++ type of an activation dtype.
template <class F>
void with_type(at::ScalarType dtype, F&& f) {
  if (dtype == at::kFloat) return f(float{});
  if (dtype == at::kBFloat16) return f(at::BFloat16{});
  f(at::Half{});
}

// Calls f(std::true_type) or f(std::false_type).
template <class F>
void with_bool(bool value, F&& f) {
  value ? f(std::true_type{}) : f(std::false_type{});
}

// Whether vectorized access is possible: every defined tensor is 16-byte aligned.
template <class... Tensors>
[[nodiscard]] bool aligned(const Tensors&... tensors) {
  return ((!tensors.defined() || reinterpret_cast<uintptr_t>(tensors.const_data_ptr()) % 16 == 0) && ...);
}

template <class T>
[[nodiscard]] const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}
template <class T>
[[nodiscard]] T* mutable_data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

[[nodiscard]] inline int64_t multiprocessors() {
  static const int64_t count = [] {
    int device = 0, found = 0;
    PARTITA_CUDA_CHECK(cudaGetDevice(&device));
    PARTITA_CUDA_CHECK(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device));
    return int64_t{found};
  }();
  return count;
}

// Number of blocks that can be resident at once, for kernels that divide all work among their blocks up front.
template <class Kernel>
[[nodiscard]] int64_t resident_blocks(Kernel kernel, int threads, size_t shared_bytes = 0) {
  int blocks = 0;
  PARTITA_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return std::max(1, blocks) * multiprocessors();
}

}  // namespace partita::internal::cuda
