// Every collective against results computed from its definition, on groups of all ranks and on subgroups.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/comm/sum_over.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble,
                                      at::kInt,   at::kLong,     at::kByte};
constexpr int64_t kSizes[] = {0, 1, 7, 1000, 20'011};  // the last is large for all_reduce in every dtype

// Values that look random and are known to every rank; small, so that few sums overflow fp16.
at::Tensor numbers(int rank, int64_t n, at::ScalarType dtype) {
  at::Tensor values = at::empty({n}, at::kFloat);
  for (int64_t i = 0; i < n; ++i)
    values.mutable_data_ptr<float>()[i] =
        static_cast<float>(static_cast<int64_t>(mix(static_cast<uint64_t>(rank * 1'000'003 + i)) >> 40)) * 0x1p-22F - 2;
  return (at::isFloatingType(dtype) ? values : values.mul(20).add(100)).to(dtype);
}

bool is_half(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

// Ordered, one addition at a time, half precision in fp32, rounded once.
at::Tensor ordered_sum(std::vector<at::Tensor> rows, at::ScalarType to) {
  const at::ScalarType dtype = rows[0].scalar_type(), wide = is_half(dtype) ? at::kFloat : dtype;
  at::Tensor sum = rows[0].to(wide, false, /*copy=*/true);
  for (size_t r = 1; r < rows.size(); ++r) sum = sum.add(rows[r].to(wide));
  return sum.to(to);
}

class Collectives : public testing::Test {
 protected:
  void SetUp() override { all_ = test_world().group("all", test_ranks()); }

  std::unique_ptr<Communicator> all_;
  CpuStream stream_;
  int rank_ = test_world().rank(), size_ = test_world().size();
};

TEST_F(Collectives, SelfCheckPasses) { self_check(*all_); }

TEST_F(Collectives, AllGather) {
  for (at::ScalarType dtype : kDtypes)
    for (int64_t n : kSizes) {
      at::Tensor full = at::full({n * size_}, 1, dtype);
      all_->all_gather(full, numbers(rank_, n, dtype), stream_).wait();
      for (int r = 0; r < size_; ++r)
        ASSERT_TRUE(at::equal(full.slice(0, n * r, n * (r + 1)), numbers(r, n, dtype)))
            << n << " " << dtype << " " << r;
    }
}

TEST_F(Collectives, AllGatherInPlace) {
  const int64_t n = 1003;
  at::Tensor full = at::full({n * size_}, -1.F);
  at::Tensor slice = full.slice(0, n * rank_, n * (rank_ + 1));
  slice.copy_(numbers(rank_, n, at::kFloat));
  all_->all_gather(full, slice, stream_).wait();
  for (int r = 0; r < size_; ++r) EXPECT_TRUE(at::equal(full.slice(0, n * r, n * (r + 1)), numbers(r, n, at::kFloat)));
}

// As all_to_all, of tensors anywhere; this rank's own row stays as it is.
TEST_F(Collectives, Exchange) {
  for (at::ScalarType dtype : kDtypes)
    for (int64_t n : kSizes) {
      const at::Tensor memory = all_->shared_memory(size_ * n * static_cast<int64_t>(at::elementSize(dtype)), at::kCPU);
      const at::Tensor out = memory.view(dtype).view({size_, n});
      out.fill_(1);
      std::vector<at::Tensor> sent = numbers(rank_, n * size_, dtype).view({size_, n}).unbind();
      sent[static_cast<size_t>(rank_)] = at::Tensor();
      all_->exchange(out, sent, stream_).wait();
      for (int r = 0; r < size_; ++r)
        ASSERT_TRUE(at::equal(
            out[r], r == rank_ ? at::full({n}, 1, dtype) : numbers(r, n * size_, dtype).view({size_, n})[rank_]))
            << n << " " << dtype;
    }
}

TEST_F(Collectives, AllToAll) {
  for (at::ScalarType dtype : kDtypes)
    for (int64_t n : kSizes) {
      at::Tensor out = at::full({size_, n}, 1, dtype), in = numbers(rank_, n * size_, dtype).view({size_, n});
      all_->all_to_all(out, in, stream_).wait();
      for (int r = 0; r < size_; ++r)
        ASSERT_TRUE(at::equal(out[r], numbers(r, n * size_, dtype).view({size_, n})[rank_])) << n << " " << dtype;
    }
}

TEST_F(Collectives, ReduceScatterAddsInRankOrder) {
  for (at::ScalarType dtype : kDtypes)
    for (int64_t n : kSizes)
      for (at::ScalarType to : {dtype, is_half(dtype) ? at::kFloat : dtype}) {
        at::Tensor slice = at::full({n}, 1, to), full = numbers(rank_, n * size_, dtype);
        const at::Tensor before = full.clone();
        all_->reduce_scatter(slice, full, stream_).wait();
        std::vector<at::Tensor> rows;
        for (int r = 0; r < size_; ++r)
          rows.push_back(numbers(r, n * size_, dtype).slice(0, n * rank_, n * (rank_ + 1)));
        ASSERT_TRUE(at::equal(slice, ordered_sum(rows, to))) << n << " " << dtype << " " << to;
        ASSERT_TRUE(at::equal(full, before));
      }
}

// 1 + 2^-8 + 2^-8 rounds to 1 in bf16 after each addition, but the exact sum is a bf16 number.
TEST_F(Collectives, HalfPrecisionIsRoundedOnce) {
  if (size_ < 3) GTEST_SKIP() << "needs three ranks";
  at::Tensor tensor = at::full({4}, rank_ == 0 ? 1.0 : rank_ < 3 ? 0x1p-8 : 0.0, at::kBFloat16);
  all_->all_reduce(tensor, Reduce::sum, stream_).wait();
  EXPECT_EQ(tensor[0].item<float>(), 1 + 0x1p-7F);
}

// 2^24 + 1 = 2^24 in fp32: the sum depends on the order, which is that of ranks.
TEST_F(Collectives, OrderIsThatOfRanks) {
  if (size_ < 3) GTEST_SKIP() << "needs three ranks";
  const float mine = rank_ == 0 ? 0x1p24F : rank_ == 1 ? 1.F : rank_ == 2 ? -0x1p24F : 0.F;
  for (int64_t n : {int64_t{1}, int64_t{100'000}}) {  // both ways of all_reduce
    at::Tensor tensor = at::full({n}, mine);
    all_->all_reduce(tensor, Reduce::sum, stream_).wait();
    EXPECT_TRUE(at::equal(tensor, at::full({n}, 0.F))) << n;
  }
}

TEST_F(Collectives, AllReduce) {
  for (at::ScalarType dtype : kDtypes)
    for (int64_t n : kSizes) {
      std::vector<at::Tensor> rows;
      for (int r = 0; r < size_; ++r) rows.push_back(numbers(r, n, dtype));
      at::Tensor sum = numbers(rank_, n, dtype), largest = sum.clone(), expected = rows[0];
      all_->all_reduce(sum, Reduce::sum, stream_).wait();
      ASSERT_TRUE(at::equal(sum, ordered_sum(rows, dtype))) << n << " " << dtype;
      all_->all_reduce(largest, Reduce::max, stream_).wait();
      for (const at::Tensor& row : rows) expected = at::maximum(expected, row);
      ASSERT_TRUE(at::equal(largest, expected)) << n << " " << dtype;
    }
}

TEST_F(Collectives, MaximumKeepsNan) {
  at::Tensor tensor = at::full({2}, rank_ == size_ / 2 ? std::nanf("") : static_cast<float>(rank_));
  all_->all_reduce(tensor, Reduce::max, stream_).wait();
  EXPECT_TRUE(std::isnan(tensor[0].item<float>()));
}

TEST_F(Collectives, BroadcastFromEveryRoot) {
  for (int root = 0; root < size_; ++root)
    for (int64_t n : kSizes) {
      at::Tensor tensor = numbers(rank_, n, at::kBFloat16);
      all_->broadcast(tensor, root, stream_).wait();
      ASSERT_TRUE(at::equal(tensor, numbers(root, n, at::kBFloat16)));
    }
}

TEST_F(Collectives, MessagesBetweenTwoKeepTheirOrder) {
  if (size_ < 2) GTEST_SKIP() << "needs two ranks";
  const int64_t counts[] = {5, 0, 3'000'000, 1};
  if (rank_ == 0) {
    std::vector<at::Tensor> sent;
    std::vector<Event> events;
    for (int64_t n : counts) sent.push_back(numbers(static_cast<int>(n), n, at::kFloat));
    for (const at::Tensor& tensor : sent) events.push_back(all_->send(tensor, 1, stream_));
    for (const Event& event : events) event.wait();
  } else if (rank_ == 1) {
    std::vector<at::Tensor> got;
    std::vector<Event> events;
    for (int64_t n : counts) got.push_back(at::empty({n}, at::kFloat));
    for (const at::Tensor& tensor : got) events.push_back(all_->receive(tensor, 0, stream_));
    for (size_t i = got.size(); i-- > 0;) {
      events[i].wait();
      EXPECT_TRUE(at::equal(got[i], numbers(static_cast<int>(counts[i]), counts[i], at::kFloat))) << i;
    }
  }
  all_->barrier();
}

TEST_F(Collectives, ManyMegabytes) {
  const int64_t n = 1'500'001;  // 6 MB a rank, odd
  at::Tensor full = at::empty({n * size_}, at::kFloat), slice = at::empty({n}, at::kFloat);
  all_->all_gather(full, at::full({n}, static_cast<float>(rank_ + 1)), stream_).wait();
  for (int r = 0; r < size_; ++r) EXPECT_EQ(full.slice(0, n * r, n * (r + 1)).eq(r + 1).sum().item<int64_t>(), n);
  all_->reduce_scatter(slice, full, stream_).wait();
  EXPECT_EQ(slice.eq(size_ * (rank_ + 1)).sum().item<int64_t>(), n);
  all_->all_reduce(slice, Reduce::sum, stream_).wait();
  EXPECT_EQ(slice.eq(size_ * size_ * (size_ + 1) / 2).sum().item<int64_t>(), n);
}

// Ranks wait in different orders, while operations of two stages are under way; sub-groups between them.
TEST_F(Collectives, ManyInFlightWaitedForInAnyOrder) {
  auto other = test_world().group("other", test_ranks());
  constexpr int kCount = 24;
  std::vector<at::Tensor> tensors, gathered;
  std::vector<Event> events;
  std::vector<size_t> order;
  for (int i = 0; i < kCount; ++i) {
    Communicator& group = i % 3 == 0 ? *other : *all_;
    const int64_t n = i % 2 == 0 ? 11 : 60'000;
    tensors.push_back(at::full({n}, static_cast<float>(i + rank_)));
    gathered.push_back(at::empty({n * size_}, at::kFloat));
    order.push_back(events.size());
    events.push_back(group.all_gather(gathered.back(), tensors.back().clone(), stream_));
    order.push_back(events.size());
    events.push_back(group.all_reduce(tensors.back(), Reduce::sum, stream_));
  }
  if (rank_ % 2 == 0) std::reverse(order.begin(), order.end());
  std::rotate(order.begin(), order.begin() + 5 * rank_, order.end());
  for (size_t i : order) {
    if (i % 3 == 0)
      while (!events[i].done()) all_->progress();
    events[i].wait();
  }
  for (int i = 0; i < kCount; ++i) {
    const auto t = static_cast<size_t>(i);
    ASSERT_TRUE(at::equal(tensors[t], at::full_like(tensors[t], i * size_ + size_ * (size_ - 1) / 2))) << i;
    for (int r = 0; r < size_; ++r) ASSERT_EQ(gathered[t][tensors[t].numel() * r].item<float>(), i + r);
  }
}

// An Event that nobody keeps does not take the collective with it.
TEST_F(Collectives, DroppedEventStillCompletes) {
  at::Tensor tensor = at::full({50'000}, 1.F);
  { const Event dropped = all_->all_reduce(tensor, Reduce::sum, stream_); }
  all_->barrier();
  const Event event = all_->all_reduce(at::full({1}, 1.F), Reduce::sum, stream_);
  event.wait();
  while (!tensor.eq(size_).all().item<bool>()) all_->progress();
}

TEST_F(Collectives, PartsOfTheRanks) {
  std::vector<int> same_parity;
  for (int r = rank_ % 2; r < size_; r += 2) same_parity.push_back(r);
  auto half = test_world().group(rank_ % 2 == 0 ? "even" : "odd", same_parity);
  EXPECT_EQ(half->rank(), rank_ / 2);
  EXPECT_EQ(half->size(), static_cast<int>(same_parity.size()));
  self_check(*half);
  EXPECT_EQ(gather_strings(*half, std::to_string(rank_)).back(), std::to_string(same_parity.back()));
}

TEST_F(Collectives, StringsOfAnyLength) {
  const auto text = [](int rank) {
    return std::string(static_cast<size_t>(rank * 7), 'a') + std::string(1, '\0') + "z";
  };
  const std::vector<std::string> strings = gather_strings(*all_, text(rank_));
  ASSERT_EQ(strings.size(), static_cast<size_t>(size_));
  for (int r = 0; r < size_; ++r) EXPECT_EQ(strings[static_cast<size_t>(r)], text(r));
  for (const std::string& empty : gather_strings(*all_, "")) EXPECT_EQ(empty, "");
}

TEST_F(Collectives, BarrierWaitsForTheLast) {
  using Clock = std::chrono::steady_clock;
  all_->barrier();
  const auto begin = Clock::now();
  if (rank_ == size_ - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  all_->barrier();
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(size_ > 1 ? 80 : 0));
}

template <class Call>
void expect_error(Call call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error, expected: " << part;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

TEST_F(Collectives, WrongArgumentsAreNamed) {
  at::Tensor five = at::full({5}, 1.F), full = at::full({5 * size_}, 1.F), matrix = at::full({4, size_}, 1.F);
  const auto ignore = [](const Event&) {};
  expect_error([&] { ignore(all_->all_gather(at::full({5 * size_ + 1}, 1.F), five, stream_)); },
               "all.all_gather: expected");
  expect_error([&] { ignore(all_->all_gather(full, five.to(at::kHalf), stream_)); }, "one dtype");
  expect_error([&] { ignore(all_->reduce_scatter(five.to(at::kHalf), full, stream_)); },
               "no reduction from Float to Half");
  expect_error([&] { ignore(all_->reduce_scatter(full.slice(0, 0, 5), full, stream_)); }, "slice overlaps full");
  expect_error([&] { ignore(all_->all_reduce(at::full({2}, true, at::kBool), Reduce::sum, stream_)); }, "no reduction");
  expect_error([&] { ignore(all_->all_to_all(matrix, matrix, stream_)); }, "out overlaps in");
  expect_error([&] { ignore(all_->exchange(full, std::vector<at::Tensor>(1 + size_, five), stream_)); },
               "expected one for each of");
  expect_error([&] { ignore(all_->broadcast(five, size_, stream_)); }, "root=");
  expect_error([&] { ignore(all_->send(five, rank_, stream_)); }, "is this rank itself");
  expect_error([&] { ignore(all_->broadcast(at::Tensor(), 0, stream_)); }, "undefined");
  expect_error([&] { (void)test_world().group("none", {}); }, "does not contain this rank");
  expect_error([&] { (void)test_world().group("strange", {rank_, size_}); }, "is not a rank of");
  if (size_ > 1) {
    expect_error([&] { ignore(all_->all_reduce(matrix.t(), Reduce::sum, stream_)); }, "not contiguous");
    expect_error(
        [&] { ignore(all_->all_to_all(at::full({3 * size_ + 1}, 1.F), at::full({3 * size_ + 1}, 1.F), stream_)); },
        "not one row for each");
    at::Tensor shifted = full.slice(0, rank_ == 0 ? 1 : 0, rank_ == 0 ? 6 : 5);
    expect_error([&] { ignore(all_->all_gather(full, shifted, stream_)); }, "not this rank's part");
    expect_error([&] { (void)test_world().group("down", {1, 0}); }, "not ascending");
  }
  all_->barrier();
}

TEST(SumOver, IsTheSumOfAllRanks) {
  const int rank = test_world().rank(), ranks = test_world().size();
  std::vector<int> everyone(static_cast<size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  EXPECT_EQ(sum_over(*test_world().group("everyone", everyone), 0.5 + rank), 0.5 * ranks + ranks * (ranks - 1) / 2);
  EXPECT_EQ(sum_over(*test_world().group("alone", {rank}), -3.25), -3.25);
}

}  // namespace
}  // namespace partita::internal
