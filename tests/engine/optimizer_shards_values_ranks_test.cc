// What ranks own of master weights and optimizer states: set, read, written, and counted in bytes.
#include "partita/engine/optimizer_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "partita/base/random.h"
#include "partita/device/scalar_type.h"
#include "partita/ops/adamw.h"
#include "partita/ops/flat.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/engine/shards_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// Each element is in one box of one rank, and the boxes lie within their parameters.
TEST(OptimizerShards, BoxesOfAllRanksCoverEveryElementOnce) {
  for (int stage = 0; stage <= 3; ++stage)
    for (unsigned seed = 60; seed < 66; ++seed) {
      const Shards s({.stage = stage, .host = seed % 2 == 0, .seed = seed});
      std::map<std::string, at::Tensor> times;
      for (const auto& [name, p] : s.parameters) times[name] = at::zeros({p->count()}, at::TensorOptions(at::kInt));
      for (const OwnedBox& owned : s.shards.owned_boxes()) {
        EXPECT_TRUE(contains(whole_box(owned.parameter->shape), owned.box));
        for (const at::Tensor& values : owned.values) EXPECT_EQ(values.numel(), owned.box.count());
        int32_t* count = times.at(owned.parameter->name).mutable_data_ptr<int32_t>();
        each_element(owned, [&](int64_t, size_t whole) { ++count[whole]; });
      }
      CpuStream stream;
      for (const auto& [name, count] : times) {
        s.zero.shard->all_reduce(count, Reduce::sum, stream).wait();
        EXPECT_TRUE(count.eq(1).all().item<bool>()) << name << " at ZeRO-" << stage;
      }
    }
}

TEST(OptimizerShards, SetFillsWhatIsOwnedAndForgetsTheStates) {
  for (int stage = 0; stage <= 3; ++stage)
    for (const bool host : {false, true}) {
      Shards s({.stage = stage, .compute = DType::bf16, .host = host, .seed = 70});
      SCOPED_TRACE(name_of(s.c));
      s.set_initial();
      const std::vector<at::Tensor> first = s.copy_of_values();
      const auto gathered = s.gathered();
      s.backward(0);
      StepMemory now(at::kCPU);
      now.host.learning_rate = kRate;
      s.shards.update(now);
      EXPECT_FALSE(equal(s.copy_of_values(), first));
      s.set_initial();
      EXPECT_TRUE(equal(s.copy_of_values(), first));
      EXPECT_TRUE(equal(s.gathered(), gathered));
      std::vector<std::pair<std::string, Box>> filled, owned;
      s.shards.set([&](const ParameterSpec& p, const Box& box, const at::Tensor& out) {
        EXPECT_EQ(out.numel(), box.count());
        filled.emplace_back(p.name, box);
        out.fill_(0.5);
      });
      for (const OwnedBox& box : s.shards.owned_boxes()) owned.emplace_back(box.parameter->name, box.box);
      EXPECT_EQ(filled, owned);
      for (const auto& [name, weight] : s.gathered()) EXPECT_TRUE(weight.eq(0.5).all().item<bool>()) << name;
    }
}

// As from a checkpoint: the state of one sharding, written into the boxes of another, goes on with the same bits.
TEST(OptimizerShards, WrittenValuesArePublishedAndGoOn) {
  for (const bool host : {false, true})
    for (int stage = 0; stage <= 3; ++stage) {
      const Case whole{.compute = DType::bf16, .seed = 80};
      Case cut = whole;
      cut.stage = stage, cut.host = host, cut.late = 0;
      Shards from(whole), to(cut);
      SCOPED_TRACE(name_of(cut));
      const auto step = [](Shards& s, int number) {
        s.backward(number);
        StepMemory now(at::kCPU);
        now.host = {.update = number, .learning_rate = kRate};
        s.shards.update(now);
      };
      from.set_initial();
      step(from, 0);
      std::map<std::string, std::vector<at::Tensor>> state;  // whole: ZeRO-0 owns everything
      for (const OwnedBox& owned : from.shards.owned_boxes()) {
        ASSERT_EQ(owned.box, whole_box(owned.parameter->shape));
        state[owned.parameter->name] = owned.values;
      }
      to.shards.set([](const ParameterSpec&, const Box&, const at::Tensor& out) { out.fill_(-3); });
      for (const OwnedBox& owned : to.shards.owned_boxes())
        for (size_t v = 0; v < owned.values.size(); ++v) {
          const at::Tensor& source = state.at(owned.parameter->name).at(v);
          each_element(owned, [&](int64_t i, size_t place) {
            owned.values[v].narrow(0, i, 1).copy_(source.narrow(0, static_cast<int64_t>(place), 1));
          });
        }
      to.shards.publish();
      EXPECT_TRUE(equal(to.gathered(), from.gathered()));
      step(from, 1);
      step(to, 1);
      EXPECT_TRUE(equal(to.gathered(), from.gathered()));
    }
}

TEST(OptimizerShards, BytesAreThePredictedOnes) {
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true})
        for (const auto& [compute, states] : {std::pair(DType::fp32, DType::fp32), std::pair(DType::bf16, DType::fp32),
                                              std::pair(DType::bf16, DType::bf16)}) {
          const Shards s({.optimizer = optimizer, .stage = stage, .compute = compute, .states = states, .host = host});
          SCOPED_TRACE(name_of(s.c));
          const OptimizerShards::Bytes found = s.shards.bytes();
          const ParameterMemory predicted = predict_parameter_memory(s.plan, s.zero.sharding, s.options);
          EXPECT_EQ(found.master, predicted.master);
          EXPECT_EQ(found.optimizer, predicted.optimizer);
          EXPECT_EQ(found.host + s.gradients.host_bytes(), predicted.host);
          int64_t slices = 0;
          for (const Unit& unit : s.plan.units) slices += unit.trainable ? unit.layout.slice_count() : 0;
          const auto kept = static_cast<int64_t>(s.shards.optimizer_state_names().size());
          EXPECT_EQ(found.optimizer, host ? 0 : kept * slices * size_of(states));
          EXPECT_EQ(found.master, host || compute == states ? 0 : slices * size_of(states));
          EXPECT_GE(found.host, host ? (1 + kept) * slices * size_of(states) : 0);
        }
}

TEST(OptimizerShards, InferenceHasWeightsAndNothingElse) {
  const auto self = test_world().self(), data = test_world().group("data", test_ranks());
  const std::vector<BlockParameters> blocks = model();
  for (int stage : {0, 3}) {
    const Zero zero = make_zero(stage, *self, *data);
    const UnitPlan plan = plan_units(blocks, {.ranks = zero.sharding.ranks, .weight = DType::bf16});
    const ParameterOptions options{.compute = DType::bf16, .training = false};
    CpuStream compute, communication;
    const std::vector<at::Tensor> masters = make_masters(plan, options);
    for (const at::Tensor& master : masters) EXPECT_FALSE(master.defined());
    WeightStore weights(plan, zero, {.masters = masters}, compute, communication);
    OptimizerShards shards(plan, options, masters,
                           {.shard = *zero.shard,
                            .weights = weights,
                            .gradients = nullptr,
                            .copies = nullptr,
                            .compute = compute,
                            .update = compute});
    shards.set([](const ParameterSpec&, const Box&, const at::Tensor& out) { out.fill_(2.5); });
    for (const OwnedBox& owned : shards.owned_boxes()) {
      ASSERT_EQ(owned.values.size(), 1U);
      EXPECT_EQ(dtype_of(owned.values[0]), DType::bf16);
      EXPECT_TRUE(owned.values[0].eq(2.5).all().item<bool>());
    }
    const OptimizerShards::Bytes bytes = shards.bytes();
    EXPECT_EQ(bytes.master + bytes.optimizer + bytes.host, 0);
  }
}

TEST(OptimizerShards, MastersAreTheTrainedSlicesInTheDtypeOfStates) {
  const UnitPlan plan = plan_units(model(), {.ranks = 3, .weight = DType::bf16});
  const std::vector<at::Tensor> masters = make_masters(plan, {.compute = DType::bf16});
  ASSERT_EQ(masters.size(), plan.units.size());
  for (size_t u = 0; u < masters.size(); ++u) {
    ASSERT_EQ(masters[u].defined(), plan.units[u].trainable);
    if (!masters[u].defined()) continue;
    EXPECT_EQ(masters[u].numel(), plan.units[u].layout.slice_count());
    EXPECT_EQ(dtype_of(masters[u]), DType::fp32);
    EXPECT_EQ(masters[u].abs().max().item<float>(), 0);
  }
  for (const at::Tensor& master : make_masters(plan, {.compute = DType::bf16, .states = DType::bf16}))
    EXPECT_FALSE(master.defined());
  UnitPlan on_host = plan;
  place_states(on_host, {.host = 1}, true);
  for (const at::Tensor& master : make_masters(on_host, {.compute = DType::bf16})) EXPECT_FALSE(master.defined());
}

// 1500 rows of 1001: pieces of whole rows, none of more than 2^20 elements, each in its place.
TEST(FromHost, ReadsInPieces) {
  const ParameterSpec p{.name = "big", .shape = {2000, 1001}};
  const Box box{.row = 100, .rows = 1500, .column = 0, .columns = 1001};
  std::vector<Box> pieces;
  const FillWeights fill = from_host([&](const ParameterSpec& which, const Box& piece, std::span<float> out) {
    EXPECT_EQ(which.name, "big");
    EXPECT_EQ(out.size(), static_cast<size_t>(piece.count()));
    pieces.push_back(piece);
    for (int64_t r = 0; r < piece.rows; ++r)
      std::fill_n(out.begin() + r * piece.columns, piece.columns, static_cast<float>((piece.row + r) % 256));
  });
  const at::Tensor out = at::zeros({box.count()}, at::TensorOptions(at::kBFloat16));
  fill(p, box, out);
  ASSERT_EQ(pieces.size(), 2U);
  int64_t row = box.row;
  for (const Box& piece : pieces) {
    EXPECT_LE(piece.count(), 1 << 20);
    EXPECT_EQ(piece.row, row);
    EXPECT_EQ(piece.columns, 1001);
    row += piece.rows;
  }
  EXPECT_EQ(row, 1600);
  const at::Tensor wide = out.to(at::kFloat);
  for (int64_t r = 0; r < box.rows; ++r)
    for (const int64_t k : {0, 500, 1000})
      ASSERT_EQ(wide.data_ptr<float>()[r * 1001 + k], static_cast<float>((100 + r) % 256)) << r;
}

}  // namespace
}  // namespace partita::internal
