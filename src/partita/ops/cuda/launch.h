// What the host decides for kernels of activations and flat buffers: C++ types from dtypes, alignment, sizes of
// launches.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "partita/ops/cuda/check.h"

// After a launch: were its arguments valid?
#define PARTITA_LAUNCHED() PARTITA_CUDA_CHECK(cudaGetLastError())

namespace partita::internal::cuda {

inline constexpr int kThreads = 256;  // a block of element-wise kernels

[[nodiscard]] inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks for so many threads, at least one.
[[nodiscard]] inline unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(divide_up(threads > 0 ? threads : 1, kThreads));
}

// f(T{}) with the C++ type of an activation.
template <class F>
void with_type(at::ScalarType dtype, F&& f) {
  if (dtype == at::kFloat) return f(float{});
  if (dtype == at::kBFloat16) return f(at::BFloat16{});
  f(at::Half{});
}

// f(std::true_type) or f(std::false_type).
template <class F>
void with_bool(bool value, F&& f) {
  value ? f(std::true_type{}) : f(std::false_type{});
}

// Whether packs can be accessed as wholes: every defined tensor begins at a multiple of 16 bytes.
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

// As many blocks as run at once, for kernels whose blocks share out all work at their start.
template <class Kernel>
[[nodiscard]] int64_t resident_blocks(Kernel kernel, int threads, size_t shared_bytes = 0) {
  int blocks = 0;
  PARTITA_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return std::max(1, blocks) * multiprocessors();
}

}  // namespace partita::internal::cuda
