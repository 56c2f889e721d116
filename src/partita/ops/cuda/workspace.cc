#include "partita/ops/cuda/workspace.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace partita::internal::cuda {
namespace {

constexpr int64_t kLeast = int64_t{1} << 20;  // so that small blocks need not grow

struct Blocks {
  std::mutex mutex;
  std::map<std::pair<int, c10::StreamId>, at::Tensor> by_stream;  // key: device and stream
};

Blocks& blocks() {
  static auto* all = new Blocks;  // never destroyed: the allocator may be gone at exit
  return *all;
}

}  // namespace

std::byte* workspace(int64_t bytes) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const std::lock_guard lock(blocks().mutex);
  at::Tensor& block = blocks().by_stream[{stream.device_index(), stream.id()}];
  if (!block.defined() || block.numel() < bytes) {
    block.reset();  // free first; the allocator reuses the memory in stream order
    block = at::empty({std::max(bytes, kLeast)}, at::TensorOptions(at::kByte).device(stream.device()));
  }
  return static_cast<std::byte*>(block.mutable_data_ptr());
}

int64_t workspace_bytes() {
  const int device = c10::cuda::current_device();
  const std::lock_guard lock(blocks().mutex);
  int64_t sum = 0;
  for (const auto& [key, block] : blocks().by_stream)
    if (key.first == device && block.defined()) sum += block.numel();
  return sum;
}

}  // namespace partita::internal::cuda
