// Gradients from blocks to shards: every kind of reduction, on one rank and on several, with and without offload.
#include "partita/shard/gradient_store.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "partita/comm/recording.h"
#include "partita/ops/flat.h"
#include "tests/support/error_message.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

ParameterSpec parameter(std::string name, std::vector<int64_t> shape, bool trainable = true) {
  return {.name = std::move(name), .shape = std::move(shape), .trainable = trainable};
}

// Odd sizes; a tied table, a frozen layer, a vector that two blocks write, a matrix that nobody writes.
std::vector<BlockParameters> model() {
  return {{BlockKind::embedding, {parameter("table", {11, 7})}},
          {BlockKind::layer, {parameter("w0", {7, 5}), parameter("b0", {5})}},
          {BlockKind::layer, {parameter("w1", {7, 5}, false), parameter("b0", {5})}},
          {BlockKind::layer, {parameter("w2", {7, 5}), parameter("unused", {3, 3})}},
          {BlockKind::layer, {parameter("w3", {9, 13})}},
          {BlockKind::head, {parameter("table", {11, 7}), parameter("norm", {7})}}};
}

// What block `block` of a rank adds in a micro-batch: small integers, so that sums are exact in any order.
at::Tensor contribution(int rank, int micro_batch, int block, const ParameterSpec& p) {
  const auto key = static_cast<int64_t>(std::hash<std::string>()(p.name) % 13);
  at::Tensor t = at::zeros(p.shape, at::kFloat);
  float* data = t.data_ptr<float>();
  for (int64_t i = 0; i < t.numel(); ++i)
    data[i] = static_cast<float>((i * 7 + key + 3 * rank + 5 * micro_batch + 11 * block) % 17 - 8);
  return t;
}

struct Case {
  int stage, micro_batches;
  bool offload, poison;
};

class GradientStoreTest : public testing::Test {
 protected:
  std::unique_ptr<Communicator> self_ = test_world().self();
  std::unique_ptr<Communicator> data_ = test_world().group("data", test_ranks());
  const std::vector<BlockParameters> blocks_ = model();

  [[nodiscard]] std::map<std::string, at::Tensor> expected(int micro_batches) const {
    std::map<std::string, at::Tensor> sums;
    for (int rank = 0; rank < data_->size(); ++rank)
      for (int m = 0; m < micro_batches; ++m)
        for (int b = 0; b < static_cast<int>(blocks_.size()); ++b)
          for (const ParameterSpec& p : blocks_[static_cast<size_t>(b)].parameters) {
            at::Tensor& sum = sums[p.name];
            if (!sum.defined()) sum = at::zeros(p.shape, at::kFloat);
            if (p.name != "unused") sum.add_(contribution(rank, m, b, p));
          }
    return sums;
  }

  // One step: every block writes what is its own, through target() as kernels do.
  void backward(
      GradientStore& store, int micro_batches, const std::function<void()>& before_finish = [] {}) const {
    for (int m = 0; m < micro_batches; ++m)
      for (int b = static_cast<int>(blocks_.size()) - 1; b >= 0; --b) {
        const std::unique_ptr<Grads> open = store.open(b);
        const auto& parameters = blocks_[static_cast<size_t>(b)].parameters;
        for (size_t p = 0; p < parameters.size(); ++p) {
          if (parameters[p].name == "unused") continue;
          const Target target = open->target(static_cast<int>(p));
          EXPECT_EQ(target.gradient.defined(), parameters[p].trainable);
          if (!target.gradient.defined()) continue;
          const at::Tensor value = contribution(data_->rank(), m, b, parameters[p]);
          if (target.accumulate)
            target.gradient.add_(value);
          else
            target.gradient.copy_(value);
        }
        store.close(b, m + 1 == micro_batches);
      }
    before_finish();
    store.finish();
  }

  // The squared norm that all ranks have together.
  [[nodiscard]] double squares(const GradientStore& store) {
    const at::Tensor sum = at::zeros({1}, at::kDouble);
    store.sum_of_squares(sum);
    CpuStream compute;
    data_->all_reduce(sum, Reduce::sum, compute).wait();
    return sum.item<double>();
  }
  [[nodiscard]] double expected_squares(int micro_batches) const {
    double sum = 0;
    for (const auto& [name, values] : expected(micro_batches))
      if (name != "w1") sum += values.to(at::kDouble).square().sum().item<double>();
    return sum;
  }
};

// Counts what runs on it.
class CountingStream final : public Stream {
 public:
  [[nodiscard]] Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void run(const std::function<void()>& work) override {
    ++runs;
    work();
  }
  int runs = 0;
};

TEST_F(GradientStoreTest, SlicesHoldTheSumOfRanksAndMicroBatches) {
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, 2, 5})
      for (const auto& [offload, early, late_sums] :
           {std::tuple(false, false, -1), {true, false, -1}, {false, true, -1}, {true, false, 0}, {true, false, 40}}) {
        const bool transient = early;
        SCOPED_TRACE(testing::Message() << "ZeRO-" << stage << ", " << micro_batches << " micro-batches, offload "
                                        << offload << ", early norms and transient slices " << early
                                        << ", sums on the host " << late_sums);
        const Zero zero = make_zero(stage, *self_, *data_);
        UnitPlan plan = plan_units(blocks_, {.ranks = zero.sharding.ranks, .layers_per_unit = 1});
        place_states(plan, {.host = offload ? 1.0 : 0.0}, micro_batches == 1);
        if (late_sums >= 0 && micro_batches > 1) place_gradient_sums(plan);
        CpuStream compute, communication;
        CountingStream norms;
        const std::unique_ptr<Copies> copies =
            late_sums < 0 ? make_copies(at::kCPU)
                          : std::make_unique<test::LateCopies>(7, static_cast<unsigned>(late_sums));
        GradientStore store(plan, zero,
                            {.micro_batches = micro_batches,
                             .poison = true,
                             .transient_slices = transient,
                             .copies = copies.get(),
                             .norm_stream = early ? &norms : nullptr},
                            compute, communication);
        const GradientPlan planned = plan_gradients(plan, zero.sharding, micro_batches);
        EXPECT_EQ(store.bytes(), planned.bytes());
        EXPECT_EQ(store.host_bytes(), planned.host_bytes());
        const auto sums = expected(micro_batches);
        for (int step = 0; step < 2; ++step) {  // the second begins with what the first left
          for (size_t u = 0; u < plan.units.size(); ++u) {
            store.release(static_cast<int>(u));
            const bool absent = !plan.units[u].trainable || (transient && planned.slice[u] == SliceMemory::own);
            EXPECT_EQ(store.gradient(static_cast<int>(u)).defined(), !absent) << plan.units[u].name;
          }
          const auto trained = std::ranges::count(plan.units, true, &Unit::trainable);
          const auto measured = early && zero.replica->rank() == 0 ? (step + 1) * trained : 0;
          // What the last micro-batch adds to a slice is added when its slot is needed, or in finish.
          const auto waiting =
              measured > 0 && planned.reduction == Reduction::each_then_add ? std::ssize(planned.slots.slot_count) : 0;
          backward(store, micro_batches, [&] {
            EXPECT_LE(norms.runs, measured);
            EXPECT_GE(norms.runs, measured - waiting) << "under the backward pass";
          });
          EXPECT_EQ(norms.runs, measured) << "once a step";
          const std::vector<int> sent = store.take_sent();
          EXPECT_EQ(std::ssize(sent), offload ? trained : 0);
          EXPECT_EQ(std::set<int>(sent.begin(), sent.end()).size(), sent.size());
          for (size_t u = 0; u < plan.units.size(); ++u) {
            const Unit& unit = plan.units[u];
            const at::Tensor slice = store.gradient(static_cast<int>(u));
            EXPECT_EQ(slice.defined(), unit.trainable) << unit.name;
            if (!unit.trainable) continue;
            if (offload) store.arrived(static_cast<int>(u)).wait();
            for (const Segment& s : slice_segments(unit.layout, zero.shard->rank())) {
              const ParameterSpec& p = unit.layout.parameters[static_cast<size_t>(s.parameter)];
              EXPECT_TRUE(
                  slice.narrow(0, s.in_slice, s.count).equal(sums.at(p.name).view({-1}).narrow(0, s.in_box, s.count)))
                  << p.name << ", step " << step;
            }
          }
          EXPECT_EQ(squares(store), expected_squares(micro_batches)) << "step " << step;
          EXPECT_EQ(squares(store), expected_squares(micro_batches)) << "asked twice, step " << step;
        }
      }
}

// Slices that replicas sum after backward have no norm before.
TEST_F(GradientStoreTest, WhatReplicasAddIsInTheNorm) {
  Zero zero = make_zero(0, *self_, *data_);
  zero.sharding.gradients = true;
  const UnitPlan plan = plan_units(blocks_, {.layers_per_unit = 1});
  for (const int micro_batches : {1, 2}) {
    CpuStream compute, communication;
    CountingStream norms;
    GradientStore store(plan, zero, {.micro_batches = micro_batches, .norm_stream = &norms}, compute, communication);
    for (int step = 0; step < 2; ++step) {
      backward(store, micro_batches);
      EXPECT_EQ(squares(store), expected_squares(micro_batches)) << micro_batches << ", step " << step;
    }
    EXPECT_TRUE(norms.runs == 0 || data_->size() == 1);
  }
}

// A table of the first and the last stage: each adds the gradient of its own use, and the first counts it.
TEST_F(GradientStoreTest, WhatAnotherStageAddsIsInTheNorm) {
  std::vector<BlockParameters> blocks = {{BlockKind::layer, {parameter("w", {7, 5})}},
                                         {BlockKind::head, {parameter("table", {11, 7})}}};
  blocks[1].parameters[0].stage_copy = data_->rank() == 0 ? ParameterSpec::Copy::first : ParameterSpec::Copy::second;
  Zero zero = make_zero(0, *self_, *self_);
  zero.ends = data_.get();
  const UnitPlan plan = plan_units(blocks, {.layers_per_unit = 1});
  CpuStream compute, communication;
  CountingStream norms;
  GradientStore store(plan, zero, {.norm_stream = &norms}, compute, communication);
  double expected = 0, table = 0;
  for (int rank = 0; rank < data_->size(); ++rank) {
    expected += 35 * (rank + 1) * (rank + 1);
    table += rank + 1;
  }
  expected += 77 * table * table;
  for (int b = 1; b >= 0; --b) {
    store.open(b)->target(0).gradient.fill_(data_->rank() + 1);
    store.close(b, true);
  }
  EXPECT_EQ(norms.runs, 1) << "of w alone";
  store.finish();
  EXPECT_EQ(squares(store), expected);
}

// After a pass that failed the next one begins anew, and its norm is its own.
TEST_F(GradientStoreTest, WhatIsDroppedIsNotInTheNorm) {
  for (const int stage : {0, 1, 2}) {
    const Zero zero = make_zero(stage, *self_, *data_);
    const UnitPlan plan = plan_units(blocks_, {.ranks = zero.sharding.ranks, .layers_per_unit = 1});
    CpuStream compute, communication;
    CountingStream norms;
    GradientStore store(plan, zero, {.micro_batches = 2, .transient_slices = true, .norm_stream = &norms}, compute,
                        communication);
    for (int b = static_cast<int>(blocks_.size()) - 1; b >= 2; --b) {
      (void)store.open(b);
      store.close(b, true);
    }
    store.drop();
    backward(store, 2);
    EXPECT_EQ(squares(store), expected_squares(2)) << "ZeRO-" << stage;
  }
}

TEST_F(GradientStoreTest, ReplicasAreSummedUnitByUnitDuringTheLastMicroBatch) {
  RecordingCommunicator replicas(*data_);
  const Zero zero = make_zero(0, *self_, replicas);
  const UnitPlan plan = plan_units(blocks_, {.layers_per_unit = 1});
  CpuStream compute, communication;
  GradientStore store(plan, zero, {.micro_batches = 2, .poison = true}, compute, communication);
  const auto sums = [&] { return replicas.count("all_reduce"); };
  // After each block: nothing, w3, w2, the frozen w1, w0 and all vectors, the tied table.
  std::vector<int64_t> after;
  for (const bool last : {false, true})
    for (int b = static_cast<int>(blocks_.size()) - 1; b >= 0; --b) {
      (void)store.open(b);
      store.close(b, last);
      after.push_back(sums());
    }
  const std::vector<int64_t> several{0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 4, 5};
  EXPECT_EQ(after, data_->size() > 1 ? several : std::vector<int64_t>(12, 0));
  store.drop();  // waits for them: the buffers are written again
  backward(store, 2);
  EXPECT_EQ(sums(), data_->size() > 1 ? 10 : 0);
  const at::Tensor table = store.gradient(0).narrow(0, 0, 11 * 7);
  EXPECT_TRUE(table.equal(expected(2).at("table").view({-1})));
}

TEST_F(GradientStoreTest, AnUnfinishedStepIsAnError) {
  const Zero zero = make_zero(0, *self_, *self_);
  const UnitPlan plan = plan_units(blocks_, {.layers_per_unit = 1});
  CpuStream compute, communication;
  GradientStore store(plan, zero, {.micro_batches = 2}, compute, communication);
  for (int b = static_cast<int>(blocks_.size()) - 1; b >= 0; --b) {
    (void)store.open(b);
    store.close(b, false);
  }
  EXPECT_THAT(error_message([&] { store.finish(); }), testing::HasSubstr("close was not called for the last"));
}

TEST(GradientPlan, NamesTheReductionOfEachStage) {
  const UnitPlan plan = plan_units(model(), {.ranks = 2, .layers_per_unit = 1});
  const Sharding one, states{.ranks = 2}, gradients{.ranks = 2, .gradients = true};
  const auto reduction = [&](const Sharding& s, int micro_batches) {
    return plan_gradients(plan, s, micro_batches).reduction;
  };
  EXPECT_EQ(reduction(one, 1), Reduction::in_place);
  EXPECT_EQ(reduction(one, 4), Reduction::in_place);
  EXPECT_EQ(reduction(states, 4), Reduction::once);
  EXPECT_EQ(reduction(gradients, 1), Reduction::once);
  EXPECT_EQ(reduction(gradients, 4), Reduction::each_then_add);
  EXPECT_EQ(reduction({.gradients = true}, 1), Reduction::once) << "one rank whose gradients are sharded";
}

// Where slices leave at once they are put together in the receive buffer of their slot, of the size of its largest
// unit.
TEST(GradientPlan, OffloadedSlicesTakeNoMemoryOfTheirOwn) {
  UnitPlan plan = plan_units(model(), {.ranks = 2, .layers_per_unit = 1});
  const size_t trained = plan_gradients(plan, {.ranks = 2}, 1).slots.slot_count.size();
  place_states(plan, {.host = 1}, /*one_reduction=*/true);
  const GradientPlan offload = plan_gradients(plan, {.ranks = 2}, 1);
  EXPECT_LT(offload.slots.slot_count.size(), trained) << "layers share two";
  EXPECT_EQ(offload.slice_bytes(), 0);
  EXPECT_GT(offload.receive_bytes(), 0);
  EXPECT_GT(offload.host_bytes(), 0);
  place_states(plan, {.host = 1}, /*one_reduction=*/false);
  const GradientPlan adds = plan_gradients(plan, {.ranks = 2}, 3);
  EXPECT_EQ(adds.slots.slot_count.size(), trained);
  EXPECT_EQ(adds.receive_bytes(), 0);
  EXPECT_EQ(adds.slice_bytes(), adds.host_bytes());
  // Added on the host, they leave after each micro-batch, and the sums have two buffers to arrive in.
  place_gradient_sums(plan);
  const GradientPlan sums = plan_gradients(plan, {.ranks = 2}, 3);
  EXPECT_LT(sums.slots.slot_count.size(), trained);
  EXPECT_EQ(sums.slice_bytes(), 0);
  EXPECT_EQ(sums.host_bytes(), offload.host_bytes() + 2 * sums.arrival_bytes());
  EXPECT_GT(sums.arrival_bytes(), 0);
  EXPECT_EQ(count_reductions(plan, sums, 3), 3 * count_reductions(plan, adds, 3));
}

}  // namespace
}  // namespace partita::internal
