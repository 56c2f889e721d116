#include "partita/device/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace partita::internal {
namespace {

TEST(HostMemory, IsZeroAndWritable) {
  for (const int64_t count : {0, 1, 4095, 4097, 3'000'001})
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
      for (const bool pinned : {false, true}) {
        const at::Tensor memory = pinned ? pinned_zeros(count, dtype, at::kCPU) : host_zeros(count, dtype);
        ASSERT_EQ(memory.numel(), count);
        EXPECT_EQ(memory.nbytes(), static_cast<size_t>(count * size_of(dtype)));
        EXPECT_TRUE(memory.is_contiguous());
        if (count == 0) continue;
        EXPECT_EQ(memory.abs().max().item<float>(), 0);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data_ptr()) % 4096, 0U);
        memory.fill_(3);
        EXPECT_EQ(memory.min().item<float>(), 3);
      }
  EXPECT_EQ(pinned_bytes(77, at::kCPU).nbytes(), 77U);
}

// A view keeps the pages, and they go with the last one.
TEST(HostMemory, LivesAsLongAsItsViews) {
  at::Tensor view;
  {
    const at::Tensor memory = host_zeros(10'000, DType::fp32);
    memory.fill_(2);
    view = memory.narrow(0, 9'000, 1'000);
  }
  EXPECT_EQ(view.min().item<float>(), 2);
}

}  // namespace
}  // namespace partita::internal
