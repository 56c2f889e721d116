#include "partita/nn/buffers.h"

#include <ATen/ops/from_blob.h>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"

namespace partita {
using namespace internal;
namespace {

constexpr int64_t kAlign = 64;

int64_t aligned_bytes(const BufferSpec& spec) {
  int64_t count = 1;
  for (int64_t extent : spec.shape) count *= extent;
  return (count * size_of(spec.dtype) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

int64_t bytes_of(std::span<const BufferSpec> specs) {
  int64_t total = 0;
  for (const BufferSpec& spec : specs) total += aligned_bytes(spec);
  return total;
}

std::vector<at::Tensor> carve(at::Tensor memory, std::span<const BufferSpec> specs) {
  PARTITA_CHECK(memory.numel() >= bytes_of(specs), "{} bytes for {}", memory.numel(), bytes_of(specs));
  std::vector<at::Tensor> views;
  int64_t offset = 0;
  for (const BufferSpec& spec : specs) {
    // Captured by the deleter: a view keeps the memory alive. from_blob would otherwise ask CUDA which device the
    // address belongs to; that of an empty buffer at the end belongs to none.
    views.push_back(at::from_blob(
        static_cast<std::byte*>(memory.data_ptr()) + offset, spec.shape, [memory](void*) {},
        memory.options().dtype(scalar_type(spec.dtype)), memory.device()));
    offset += aligned_bytes(spec);
  }
  return views;
}

}  // namespace partita
