#include "partita/comm/recording.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

TEST(Recording, AloneAnswersAsIfAllRanksWereThisOne) {
  RecordingCommunicator dp("dp", 1, 3);
  CpuStream stream;
  at::Tensor slice = at::arange(2, at::kFloat), full = at::empty({6}, at::kFloat);
  dp.all_gather(full, slice, stream).wait();
  EXPECT_TRUE(at::equal(full, at::arange(2, at::kFloat).repeat({3})));

  at::Tensor gradients = at::arange(6, at::kBFloat16), sum = at::empty({2}, at::kFloat);
  dp.reduce_scatter(sum, gradients, stream).wait();
  EXPECT_EQ(sum[0].item<float>(), 6);  // 3 * part 1 of 0..5
  EXPECT_EQ(sum[1].item<float>(), 9);

  at::Tensor in = at::arange(6, at::kLong).view({3, 2}), out = at::empty({3, 2}, at::kLong);
  dp.all_to_all(out, in, stream).wait();
  EXPECT_TRUE(at::equal(out, in[1].expand({3, 2})));

  at::Tensor value = at::full({1}, 5, at::kInt);
  dp.all_reduce(value, Reduce::sum, stream).wait();
  EXPECT_EQ(value.item<int>(), 15);
  dp.all_reduce(value, Reduce::max, stream).wait();
  EXPECT_EQ(value.item<int>(), 15);
  dp.broadcast(value, 2, stream).wait();
  dp.send(value, 0, stream).wait();
  dp.receive(value, 2, stream).wait();
  dp.barrier();

  const std::vector<CollectiveRecord> expected = {
      {"all_gather", 24, at::kFloat}, {"reduce_scatter", 12, at::kBFloat16}, {"all_to_all", 48, at::kLong},
      {"all_reduce", 4, at::kInt},    {"all_reduce", 4, at::kInt},           {"broadcast", 4, at::kInt, 2},
      {"send", 4, at::kInt, 0},       {"receive", 4, at::kInt, 2},           {"barrier"}};
  EXPECT_EQ(dp.records(), expected);
  EXPECT_EQ(dp.count("all_reduce"), 2);
  EXPECT_EQ(dp.bytes("all_reduce"), 8);
  EXPECT_EQ(dp.count("nothing"), 0);
  dp.clear();
  EXPECT_TRUE(dp.records().empty());
}

TEST(Recording, PassesCallsOn) {
  RecordingCommunicator inner("tp", 0, 2), outer(static_cast<Communicator&>(inner));
  CpuStream stream;
  at::Tensor value = at::full({3}, 1.F);
  outer.all_reduce(value, Reduce::sum, stream).wait();
  EXPECT_EQ(value[0].item<float>(), 2);
  EXPECT_EQ(outer.records(), inner.records());
  EXPECT_EQ(outer.name(), "tp");
  EXPECT_EQ(outer.size(), 2);
}

TEST(Recording, ChecksArguments) {
  RecordingCommunicator dp("dp", 0, 2);
  CpuStream stream;
  at::Tensor three = at::full({3}, 1.F);
  EXPECT_THROW((void)dp.all_gather(three, three, stream), Error);
  EXPECT_THROW((void)dp.send(three, 0, stream), Error);
  EXPECT_THROW(RecordingCommunicator("dp", 2, 2), Error);
  EXPECT_TRUE(dp.records().empty());
}

}  // namespace
}  // namespace partita::internal
