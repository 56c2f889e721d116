// Maximum magnitudes of the last 16 steps, and the scales derived from them.
#include "partita/engine/amax_history.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "partita/base/error.h"
#include "partita/comm/world.h"
#include "partita/device/stream.h"
#include "partita/ops/fp8.h"

namespace partita::internal {
namespace {

class Scaled final : public Block {
 public:
  explicit Scaled(int64_t scales) : scales_(scales) {}
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override { return {}; }
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override { return {}; }
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override { return {}; }
  [[nodiscard]] BlockTraits traits() const override { return {.fp8_scales = scales_}; }
  Residual forward(Weights, Residual x, Context&, Saved&) const override { return x; }
  void recompute(Weights, Context&, Saved&) const override {}
  ResidualGrad backward(Weights, ResidualGrad g, Context&, Saved&, Grads&) const override { return g; }

 private:
  int64_t scales_;
};

class AmaxHistoryTest : public testing::Test {
 protected:
  AmaxHistoryTest() {
    for (int64_t scales : {0, 3, 0, 5}) blocks_.push_back(std::make_unique<Scaled>(scales));
  }
  // As kernels do.
  static void measure(const AmaxHistory& history, int block, int64_t scale, float amax) {
    float* measured = history.scales(0, block).mutable_data_ptr<float>() + scale * kFp8Scale + kFp8Measured;
    *measured = std::max(*measured, amax);
  }
  static float expected(const AmaxHistory& history, int block, int64_t scale) {
    return history.scales(0, block).const_data_ptr<float>()[scale * kFp8Scale];
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();
  CpuStream stream_;
};

TEST_F(AmaxHistoryTest, TheLargestOfTheLastSixteenSteps) {
  AmaxHistory history(blocks_, 1, at::kCPU);
  EXPECT_FALSE(history.scales(0, 0).defined());
  EXPECT_EQ(history.scales(0, 1).sizes(), (std::vector<int64_t>{3, kFp8Scale}));
  EXPECT_EQ(history.scales(0, 3).sizes(), (std::vector<int64_t>{5, kFp8Scale}));
  EXPECT_FALSE(history.known());
  EXPECT_TRUE(history.values().empty());
  std::mt19937 random(3);
  std::vector<std::vector<float>> steps;  // [update][scale]
  for (int64_t step = 37; step < 90; ++step) {
    std::vector<float> now(8);
    for (float& amax : now) amax = std::ldexp(1.0F, static_cast<int>(random() % 20));
    for (int64_t s = 0; s < 8; ++s) {
      measure(history, s < 3 ? 1 : 3, s < 3 ? s : s - 3, 0.25F);  // of two micro-batches the larger
      measure(history, s < 3 ? 1 : 3, s < 3 ? s : s - 3, now[static_cast<size_t>(s)]);
    }
    if (step % 7 == 0) {  // a skipped step leaves no trace
      history.skip();
      continue;
    }
    steps.push_back(now);
    history.record(37 + std::ssize(steps), *self_, nullptr, stream_);
    EXPECT_TRUE(history.known());
    for (size_t s = 0; s < 8; ++s) {
      float largest = 0;
      for (size_t i = steps.size() - std::min(steps.size(), size_t{AmaxHistory::kSteps}); i < steps.size(); ++i)
        largest = std::max(largest, steps[i][s]);
      ASSERT_EQ(expected(history, s < 3 ? 1 : 3, static_cast<int64_t>(s < 3 ? s : s - 3)), largest) << step;
    }
  }
}

TEST_F(AmaxHistoryTest, GoesOnFromItsValues) {
  AmaxHistory first(blocks_, 1, at::kCPU), second(blocks_, 1, at::kCPU);
  for (int64_t step = 0; step < 20; ++step) {
    measure(first, 3, 4, static_cast<float>(20 - step));
    first.record(step, *self_, nullptr, stream_);
  }
  second.set(first.values());
  EXPECT_TRUE(second.known());
  EXPECT_EQ(expected(second, 3, 4), 16);  // steps 4 to 19
  EXPECT_EQ(second.values(), first.values());
  EXPECT_THROW(second.set(std::vector<float>(8 * AmaxHistory::kSteps + 1)), Error);
  EXPECT_EQ(second.values(), first.values());
  second.set({});
  EXPECT_FALSE(second.known());
  EXPECT_EQ(expected(second, 3, 4), 0);
}

TEST_F(AmaxHistoryTest, ForgetsWhatWasMeasuredUntilSomethingIsKnown) {
  AmaxHistory history(blocks_, 1, at::kCPU);
  EXPECT_FALSE(history.begin(0, 0).defined());
  for (const int block : {1, 3}) history.scales(0, block).fill_(3);
  EXPECT_TRUE(history.begin(0, 1).is_alias_of(history.scales(0, 1)));
  EXPECT_EQ(expected(history, 1, 0), 0);
  EXPECT_EQ(expected(history, 3, 0), 3) << "of another block, whose forward has not begun";
  history.record(0, *self_, nullptr, stream_);  // what was measured stays
  EXPECT_EQ(expected(history, 1, 0), 3);
  (void)history.begin(0, 1);
  EXPECT_EQ(expected(history, 1, 0), 3);
}

// Micro-batches between forward and backward at the same time.
TEST_F(AmaxHistoryTest, EachSlotHasScalesOfItsOwn) {
  AmaxHistory history(blocks_, 3, at::kCPU);
  const auto at = [&](int slot, int64_t place) {
    return history.scales(slot, 3).mutable_data_ptr<float>() + 2 * kFp8Scale + place;
  };
  for (const int slot : {0, 1, 2}) {
    *at(slot, kFp8Expected) = static_cast<float>(slot + 1);
    *at(slot, kFp8Measured) = slot == 1 ? 9 : 4;
  }
  (void)history.begin(2, 3);
  EXPECT_EQ(*at(0, kFp8Expected), 1);
  EXPECT_EQ(*at(1, kFp8Expected), 2);
  EXPECT_EQ(*at(2, kFp8Expected), 0);
  history.record(0, *self_, nullptr, stream_);
  for (const int slot : {0, 1, 2}) {
    EXPECT_EQ(*at(slot, kFp8Expected), 9) << "the largest of all micro-batches";
    EXPECT_EQ(*at(slot, kFp8Measured), 0);
  }
  EXPECT_EQ(history.values().size(), 8U * AmaxHistory::kSteps);
  *at(1, kFp8Measured) = std::numeric_limits<float>::infinity();
  at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble));
  history.poison(sum);
  EXPECT_TRUE(std::isnan(sum.item<double>()));
}

TEST_F(AmaxHistoryTest, WhatIsNotFiniteSpoilsTheSum) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    AmaxHistory history(blocks_, 1, at::kCPU);
    at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kDouble)).fill_(2.5);
    measure(history, 1, 2, 1e38F);
    measure(history, 3, 2, 3e38F);
    history.poison(sum);
    EXPECT_EQ(sum.item<double>(), 2.5);
    history.scales(0, 3).mutable_data_ptr<float>()[kFp8Measured] = bad;
    history.poison(sum);
    EXPECT_TRUE(std::isnan(sum.item<double>()));
  }
}

}  // namespace
}  // namespace partita::internal
