// Copies between device and host memory: bits, order and refused operands, on the CPU.
#include "partita/device/copies.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "partita/base/error.h"
#include "partita/device/host_memory.h"
#include "partita/device/scalar_type.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::int32, DType::int64, DType::uint8};

at::Tensor tensor(at::IntArrayRef shape, DType dtype) {
  return at::zeros(shape, at::TensorOptions(scalar_type(dtype)));
}
// Any bits, NaNs among them.
at::Tensor random_bits(int64_t count, DType dtype, std::mt19937& random) {
  const at::Tensor t = tensor({count}, dtype);
  auto* bytes = static_cast<uint8_t*>(t.mutable_data_ptr());
  for (size_t i = 0; i < t.nbytes(); ++i) bytes[i] = static_cast<uint8_t>(random());
  return t;
}
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

TEST(Copies, DownAndUpAgainIsTheSameBits) {
  std::mt19937 random(1);
  const auto copies = make_copies(at::kCPU);
  for (const DType dtype : kDTypes)
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{37}, static_cast<int64_t>(1 + random() % 100'000)}) {
      const at::Tensor device = random_bits(count, dtype, random), host = random_bits(count, dtype, random),
                       again = random_bits(count, dtype, random), before = device.clone();
      const Event down = copies->down(host, device, {});
      EXPECT_TRUE(down.done()) << "immediate on the CPU";
      down.wait();
      EXPECT_TRUE(same_bits(host, before)) << name_of(dtype) << " " << count;
      copies->up(again, host, down).wait();
      EXPECT_TRUE(same_bits(again, before)) << name_of(dtype) << " " << count;
      EXPECT_TRUE(same_bits(device, before));
    }
}

// Part of a buffer, from and to pinned memory and memory of another shape: what lies beside it stays.
TEST(Copies, TakesViewsAndPinnedMemory) {
  const auto copies = make_copies(at::kCPU);
  const at::Tensor pinned = pinned_zeros(100, DType::bf16, at::kCPU), device = tensor({10, 7}, DType::bf16);
  device.fill_(3);
  copies->down(pinned.narrow(0, 20, 70).view({10, 7}), device, {}).wait();
  EXPECT_TRUE(pinned.narrow(0, 0, 20).eq(0).all().item<bool>());
  EXPECT_TRUE(pinned.narrow(0, 20, 70).eq(3).all().item<bool>());
  EXPECT_TRUE(pinned.narrow(0, 90, 10).eq(0).all().item<bool>());
  pinned.fill_(5);
  copies->up(device.narrow(0, 3, 2), pinned.narrow(0, 1, 14).view({2, 7}), {}).wait();
  EXPECT_TRUE(device.narrow(0, 0, 3).eq(3).all().item<bool>());
  EXPECT_TRUE(device.narrow(0, 3, 2).eq(5).all().item<bool>());
  EXPECT_TRUE(device.narrow(0, 5, 5).eq(3).all().item<bool>());
}

struct Told final : EventState {
  explicit Told(std::function<void()> the_wait) : on_wait(std::move(the_wait)) {}
  bool test() override { return false; }
  void wait() override { on_wait(); }
  std::function<void()> on_wait;
};
Event told(std::function<void()> wait) { return Event(std::make_shared<Told>(std::move(wait))); }

// The source is written, and the target last read, before the event.
TEST(Copies, BeginAfterTheEvent) {
  const auto copies = make_copies(at::kCPU);
  for (const bool up : {false, true}) {
    const at::Tensor from = tensor({50}, DType::fp32), to = tensor({50}, DType::fp32);
    to.fill_(-1);
    int waited = 0;
    const Event after = told([&] {
      ++waited;
      EXPECT_TRUE(to.eq(-1).all().item<bool>());
      from.fill_(4);
    });
    (up ? copies->up(to, from, after) : copies->down(to, from, after)).wait();
    EXPECT_EQ(waited, 1);
    EXPECT_TRUE(to.eq(4).all().item<bool>());
  }
}

TEST(Copies, AreNotMadeAfterAnEventThatFails) {
  const auto copies = make_copies(at::kCPU);
  const at::Tensor from = tensor({5}, DType::fp32), to = tensor({5}, DType::fp32);
  from.fill_(1);
  const Event failing = told([] { fail("the ranks before it are gone"); });
  EXPECT_THAT(error_message([&] { (void)copies->down(to, from, failing); }), HasSubstr("the ranks before it are gone"));
  EXPECT_THAT(error_message([&] { (void)copies->up(to, from, failing); }), HasSubstr("the ranks before it are gone"));
  EXPECT_TRUE(to.eq(0).all().item<bool>());
}

TEST(Copies, OfOneDtypeAndSizeAndContiguous) {
  const auto copies = make_copies(at::kCPU);
  const auto error = [&](const at::Tensor& to, const at::Tensor& from) {
    const std::string down = error_message([&] { (void)copies->down(to, from, {}); });
    EXPECT_EQ(error_message([&] { (void)copies->up(to, from, {}); }), down);
    EXPECT_TRUE(to.eq(0).all().item<bool>()) << "written";
    return down;
  };
  const auto ones = [](at::IntArrayRef shape, DType dtype) { return tensor(shape, dtype).fill_(1); };
  EXPECT_THAT(error(tensor({5}, DType::fp32), ones({4}, DType::fp32)),
              HasSubstr("a copy of 4 Float into 5 Float: expected contiguous tensors of one dtype and size"));
  EXPECT_THAT(error(tensor({5}, DType::bf16), ones({5}, DType::fp16)), HasSubstr("a copy of 5 Half into 5 BFloat16"));
  EXPECT_THAT(error(tensor({3, 4}, DType::fp32).t(), ones({4, 3}, DType::fp32)),
              HasSubstr("a copy of 12 Float into 12"));
  EXPECT_THAT(error(tensor({4, 3}, DType::fp32), ones({4, 5}, DType::fp32).narrow(1, 1, 3)),
              HasSubstr("expected contiguous"));
  EXPECT_THAT(error(tensor({1}, DType::fp32), ones({4}, DType::fp32)), HasSubstr("a copy of 4 Float into 1"))
      << "nothing is broadcast";
}

TEST(Copies, OfADeviceWithoutCodeAreAnError) {
  EXPECT_THAT(error_message([] { (void)make_copies(at::kMPS); }), HasSubstr("no code for device mps in this build"));
}

}  // namespace
}  // namespace partita::internal
