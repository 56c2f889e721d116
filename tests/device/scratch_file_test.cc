// A file without a name: what is written is read, by transfers and through views, and nothing is left behind.
#include "partita/device/scratch_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <random>

#include "partita/device/host_memory.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlock = ScratchFile::kBlock;

TEST(ScratchFile, KeepsWhatIsWritten) {
  const TemporaryDirectory folder;
  ScratchFile file(folder / "new" / "folder", 40 << 20);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "new" / "folder")) << "it has no name";
  if (!file.is_direct()) std::printf("the page cache is used: %s has no direct access\n", folder.path().c_str());
  std::mt19937 random(1);
  const at::Tensor expected = at::zeros({40 << 20}, at::kByte), memory = host_zeros(12 << 20, DType::uint8);
  for (int round = 0; round < 40; ++round) {
    const int64_t bytes = kBlock * static_cast<int64_t>(random() % (memory.numel() / kBlock + 1));
    const int64_t offset = kBlock * static_cast<int64_t>(random() % ((file.bytes() - bytes) / kBlock + 1));
    const at::Tensor part = memory.narrow(0, 0, bytes), there = expected.narrow(0, offset, bytes);
    switch (random() % 4) {
      case 0:
        part.random_(0, 256);
        file.write(memory.mutable_data_ptr(), offset, bytes).wait();
        there.copy_(part);
        break;
      case 1:
        there.random_(0, 256);
        file.view(offset, bytes, DType::uint8).copy_(there);
        break;
      case 2:
        file.read(memory.mutable_data_ptr(), offset, bytes).wait();
        EXPECT_TRUE(part.equal(there)) << "read in round " << round;
        break;
      default:
        EXPECT_TRUE(file.view(offset, bytes, DType::uint8).equal(there)) << "seen in round " << round;
    }
  }
}

TEST(ScratchFile, ViewsHaveTheTypeThatIsAskedFor) {
  const TemporaryDirectory folder;
  ScratchFile file(folder.path(), 5000);
  EXPECT_EQ(file.bytes(), 2 * kBlock);
  const at::Tensor view = file.view(kBlock, 100, DType::fp32);
  EXPECT_TRUE(view.eq(0).all().item<bool>());
  view.copy_(at::arange(100, at::kFloat));
  const at::Tensor memory = host_zeros(kBlock, DType::uint8);
  file.read(memory.mutable_data_ptr(), kBlock, kBlock).wait();
  EXPECT_TRUE(memory.narrow(0, 0, 400).view(at::kFloat).equal(at::arange(100, at::kFloat)));
}

TEST(ScratchFile, WhatCannotBeIsAnError) {
  const TemporaryDirectory folder;
  EXPECT_THAT(error_message([] { ScratchFile("/proc/nowhere", 1); }),
              HasSubstr("/proc/nowhere: the folder for scratch data cannot be created"));
  EXPECT_THAT(error_message([&] { ScratchFile(folder.path(), int64_t{1} << 60); }), HasSubstr("1024.0 PiB needed"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  ScratchFile file(folder.path(), 3 * kBlock);
  const at::Tensor memory = host_zeros(4 * kBlock, DType::uint8);
  EXPECT_ANY_THROW((void)file.read(memory.mutable_data_ptr(), 0, 4 * kBlock)) << "behind the end";
  EXPECT_ANY_THROW((void)file.read(memory.mutable_data_ptr(), 0, 100)) << "part of a block";
  EXPECT_ANY_THROW((void)file.write(memory.mutable_data_ptr(), 100, kBlock)) << "within a block";
  EXPECT_ANY_THROW((void)file.view(kBlock, 2 * kBlock + 1, DType::uint8));
}

}  // namespace
}  // namespace partita::internal
