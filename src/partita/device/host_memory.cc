#include "partita/device/host_memory.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/device/scalar_type.h"
#ifdef PARTITA_CUDA
#include <cuda_runtime_api.h>
#endif

namespace partita::internal {
namespace {

constexpr int64_t kPage = 4096, kPagesAThread = 4096;

void* touched_pages(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail("{} of host memory could not be allocated: {}; offload less, or shard over more ranks", human_bytes(bytes),
         std::strerror(errno));
  (void)madvise(memory, size, MADV_HUGEPAGE);  // falls back to small pages
  at::parallel_for(0, (bytes + kPage - 1) / kPage, kPagesAThread, [&](int64_t begin, int64_t end) {
    for (int64_t page = begin; page < end; ++page) static_cast<volatile char*>(memory)[page * kPage] = 0;
  });
  return memory;
}

at::Tensor zeros(int64_t count, at::ScalarType type, bool pinned) {
  if (count == 0) return at::zeros({0}, type);
  const auto size = static_cast<size_t>(count) * c10::elementSize(type);
  void* memory = touched_pages(static_cast<int64_t>(size));
#ifdef PARTITA_CUDA
  if (pinned) {
    const cudaError_t error = cudaHostRegister(memory, size, cudaHostRegisterDefault);
    if (error != cudaSuccess) {
      munmap(memory, size);
      fail("{} of host memory could not be pinned: {}; allow more locked memory (ulimit -l), or offload less",
           human_bytes(static_cast<int64_t>(size)), cudaGetErrorString(error));
    }
  }
#endif
  const auto release = [size, pinned](void* pages) {
#ifdef PARTITA_CUDA
    if (pinned) {
      (void)cudaDeviceSynchronize();  // finish pending copies first
      (void)cudaHostUnregister(pages);
    }
#else
    (void)pinned;
#endif
    munmap(pages, size);
  };
  return at::from_blob(memory, {count}, release, at::TensorOptions(type));
}

}  // namespace

at::Tensor host_zeros(int64_t count, DType dtype) { return zeros(count, scalar_type(dtype), false); }

at::Tensor pinned_zeros(int64_t count, DType dtype, at::Device device) {
  return zeros(count, scalar_type(dtype), !device.is_cpu());
}

at::Tensor pinned_bytes(int64_t count, at::Device device) { return zeros(count, at::kByte, !device.is_cpu()); }

}  // namespace partita::internal
