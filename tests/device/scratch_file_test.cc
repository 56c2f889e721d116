// A file without a name: what is written is read, by transfers and through views, and nothing is left behind.
#include "partita/device/scratch_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "partita/device/host_memory.h"
#include "partita/device/stream_delay.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::AllOf;
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

// The mapping counts as address space, which no other memory of the file does.
TEST(ScratchFile, ALimitOfAddressSpaceIsNamed) {
  const TemporaryDirectory folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::ifstream pages("/proc/self/statm");
  int64_t used = 0;
  ASSERT_TRUE(pages >> used);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(used * getpagesize() + (int64_t{64} << 20));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const std::string error = error_message([&] { ScratchFile(folder.path(), int64_t{256} << 20); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(error, AllOf(HasSubstr(folder.path().string() + ": 256.0 MiB of scratch data cannot be mapped: "),
                           HasSubstr("ulimit -v")));
}

class CheckedScratchFile : public testing::Test {
 protected:
  void TearDown() override { set_stream_delays(0, 0); }

  std::string read_error(int64_t offset, int64_t bytes) {
    const at::Tensor to = host_zeros(bytes, DType::uint8);
    return error_message([&] { file_.read(to.mutable_data_ptr(), offset, bytes).wait(); });
  }

  TemporaryDirectory folder_;
  ScratchFile file_{folder_.path(), 16 << 20, /*checked=*/true};
  at::Tensor memory_ = host_zeros(16 << 20, DType::uint8).random_(0, 256);
};

TEST_F(CheckedScratchFile, NamesTheBlockThatIsNotWhatWasWritten) {
  const at::Tensor all = file_.view(0, file_.bytes(), DType::uint8);
  file_.write(memory_.mutable_data_ptr(), 0, file_.bytes()).wait();
  EXPECT_EQ(read_error(0, file_.bytes()), "no error");
  constexpr int64_t kChanged = 5 << 20;
  all[kChanged + 17].bitwise_xor_(1);
  EXPECT_EQ(read_error(0, kChanged), "no error");
  EXPECT_EQ(read_error(kChanged + kBlock, file_.bytes() - kChanged - kBlock), "no error");
  for (const int64_t begin : {int64_t{0}, kChanged})
    EXPECT_THAT(
        read_error(begin, kChanged + 3 * kBlock - begin),
        AllOf(HasSubstr(folder_.path().string() + ": scratch data: the 4096 bytes read at byte 5242880 are not"),
              HasSubstr("what was written there")));
  ScratchFile unchecked(folder_.path(), kBlock);
  unchecked.write(memory_.mutable_data_ptr(), 0, kBlock).wait();
  unchecked.view(0, kBlock, DType::uint8)[17].bitwise_xor_(1);
  EXPECT_NO_THROW(unchecked.read(memory_.mutable_data_ptr(), 0, kBlock).wait());
}

TEST_F(CheckedScratchFile, ViewsMayWriteWhatIsUnchecked) {
  const at::Tensor all = file_.view(0, file_.bytes(), DType::uint8);
  EXPECT_EQ(read_error(0, file_.bytes()), "no error") << "nothing has been written yet";
  file_.write(memory_.mutable_data_ptr(), 0, file_.bytes()).wait();
  file_.uncheck(kBlock + 100, kBlock);  // two blocks in part
  all.narrow(0, kBlock, 2 * kBlock).fill_(3);
  EXPECT_EQ(read_error(0, file_.bytes()), "no error");
  all.narrow(0, 0, 1).bitwise_xor_(1), all.narrow(0, 3 * kBlock, 1).bitwise_xor_(1);
  EXPECT_THAT(read_error(0, 3 * kBlock), HasSubstr("at byte 0 are"));
  EXPECT_EQ(read_error(kBlock, 2 * kBlock), "no error");
  EXPECT_THAT(read_error(kBlock, 3 * kBlock), HasSubstr("at byte 12288 are"));
  // Written again, they are checked again.
  file_.write(memory_.mutable_data_ptr(), kBlock, kBlock).wait();
  all.narrow(0, kBlock, 1).bitwise_xor_(1);
  EXPECT_THAT(read_error(kBlock, kBlock), HasSubstr("at byte 4096 are"));
}

TEST_F(CheckedScratchFile, FindsMemoryThatChangesBeforeItIsWritten) {
  set_stream_delays(300'000, 1);
  std::vector<Event> written;
  for (int64_t at = 0; at < file_.bytes(); at += 1 << 20)
    written.push_back(file_.write(static_cast<uint8_t*>(memory_.mutable_data_ptr()) + at, at, 1 << 20));
  memory_.fill_(0);
  for (const Event& event : written) event.wait();
  set_stream_delays(0, 0);
  EXPECT_THAT(read_error(0, file_.bytes()), HasSubstr("are not what was written there"));
}

// Several transfers at once, of several pieces each, in any order.
TEST_F(CheckedScratchFile, LateTransfersAreComplete) {
  set_stream_delays(5000, 2);
  for (int round = 0; round < 5; ++round) {
    memory_.random_(0, 256);
    const at::Tensor back = host_zeros(file_.bytes(), DType::uint8);
    auto* from = static_cast<uint8_t*>(memory_.mutable_data_ptr());
    const int64_t middle = (9 << 20) + round * kBlock;
    const Event second = file_.write(from + middle, middle, file_.bytes() - middle),
                first = file_.write(from, 0, middle);
    second.wait(), first.wait();
    EXPECT_TRUE(file_.view(0, file_.bytes(), DType::uint8).equal(memory_));
    file_.read(back.mutable_data_ptr(), 0, file_.bytes()).wait();
    EXPECT_TRUE(back.equal(memory_));
  }
}

}  // namespace
}  // namespace partita::internal
