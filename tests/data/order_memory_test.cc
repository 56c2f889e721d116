#include "partita/data/order_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/data/gpt_index.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OrderProblem, NamesWhatToLower) {
  const OrderSize order{.name = "train", .samples = 40'000'000, .epochs = 7, .bytes = int64_t{5} << 30};
  EXPECT_EQ(order_problem(order, {order.bytes, "x"}), "");
  EXPECT_THAT(order_problem(order, {int64_t{1} << 30, "the memory of this machine"}),
              AllOf(HasSubstr("the order of 40000000 samples of split \"train\" (7 epochs) takes 5.0 GiB"),
                    HasSubstr("1.0 GiB is free (the memory of this machine)"), HasSubstr("train.steps")));
}

TEST(AnnounceOrder, RefusesWhatNoMachineHolds) {
  const OrderSize huge{.name = "train", .samples = 1, .epochs = 1, .bytes = int64_t{1} << 60};
  EXPECT_THAT(error_message([&] { announce_order(huge); }), HasSubstr("of memory"));
  EXPECT_EQ(error_message([&] { announce_order({.name = "train", .bytes = 1000}); }), "no error");
}

TEST(GptIndexBytes, AreThoseOfItsArrays) {
  const std::vector<int32_t> lengths = {30, 7, 5, 44};
  const GptIndexSpec spec{.sequence_length = 8, .samples = 100};
  const GptIndex index = build_gpt_index({0, 4}, lengths, spec);
  EXPECT_EQ(gpt_index_bytes(index.plan, 4),
            static_cast<int64_t>(index.sequences.size() * 8 + index.starts.size() * 16 + index.shuffle.size() * 8 + 8));
  EXPECT_EQ(gpt_index_bytes({.epochs = int64_t{1} << 61, .samples = int64_t{1} << 61}, 1 << 30), int64_t{1} << 62);
}

TEST(PlanEpochs, RefusesMoreSamplesThanCanBeCounted) {
  const auto message = [](int64_t samples) {
    return error_message([&] { (void)plan_epochs({.sequence_length = 32, .samples = samples}, 3, 100); });
  };
  EXPECT_EQ(message(1'000'000'000'000), "no error");
  EXPECT_THAT(message(int64_t{1} << 62), AllOf(HasSubstr("4611686018427387904 samples"), HasSubstr("train.steps")));
  EXPECT_THAT(message(-1), HasSubstr("-1 samples"));
}

}  // namespace
}  // namespace partita::internal
