// Activations and gradients in one memory: who lives when, where each lies, and that nothing overwrites what lives.
#include "partita/engine/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

bool same(const Lifetime& a, int64_t bytes, int first, int last) {
  return a.bytes == bytes && a.first == first && a.last == last;
}

// All buffers of an arena beside their lifetimes.
struct Placed {
  Lifetime lifetime;
  at::Tensor memory;
};

std::vector<Placed> placed(const Arena& arena, const std::vector<Lifetime>& kept, const GradientLifetimes& gradients) {
  EXPECT_EQ(arena.kept.size(), kept.size());
  EXPECT_EQ(arena.gradients.size(), gradients.full.size());
  EXPECT_EQ(arena.slices.size(), gradients.slices.size());
  std::vector<Placed> all;
  const auto add = [&](const std::vector<Lifetime>& lifetimes, const std::vector<at::Tensor>& memory) {
    for (size_t i = 0; i < lifetimes.size(); ++i) all.push_back({lifetimes[i], memory.at(i)});
  };
  add(kept, arena.kept);
  add(gradients.full, arena.gradients);
  add(gradients.slices, arena.slices);
  return all;
}

// Sizes as asked for, alignment, no overlap in time and place; the whole memory if it is used at all.
void expect_disjoint(const std::vector<Placed>& all, int64_t memory_bytes) {
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [lifetime, memory] = all[i];
    ASSERT_EQ(memory.defined(), lifetime.bytes > 0) << i;
    if (!memory.defined()) continue;
    EXPECT_EQ(memory.scalar_type(), at::kByte);
    EXPECT_TRUE(memory.is_contiguous());
    EXPECT_EQ(memory.numel(), lifetime.bytes) << i;
    EXPECT_EQ(memory.storage_offset() % kMemoryAlignment, 0) << i;
    EXPECT_EQ(static_cast<int64_t>(memory.storage().nbytes()), memory_bytes) << "one memory";
    for (size_t j = 0; j < i; ++j) {
      const auto& other = all[j];
      if (!other.memory.defined() || !meet(lifetime, other.lifetime)) continue;
      const auto *begin = memory.const_data_ptr<uint8_t>(), *other_begin = other.memory.const_data_ptr<uint8_t>();
      EXPECT_TRUE(begin + lifetime.bytes <= other_begin || other_begin + other.lifetime.bytes <= begin)
          << i << " and " << j << " share memory";
    }
  }
}

// Lives through the step: each buffer is written at its first moment and must be as written at its last.
void expect_survival(const std::vector<Placed>& all, int end) {
  const auto mark = [](size_t i) { return static_cast<int>(1 + i % 251); };
  for (int moment = 0; moment <= end; ++moment) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].memory.defined() && all[i].lifetime.first == moment)
        std::memset(all[i].memory.mutable_data_ptr(), mark(i), all[i].memory.nbytes());
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].memory.defined() && all[i].lifetime.last == moment) {
        EXPECT_TRUE(all[i].memory.eq(mark(i)).all().item<bool>()) << "buffer " << i << " at moment " << moment;
      }
  }
}

int64_t sum_of(const std::vector<Lifetime>& lifetimes) {
  int64_t sum = 0;
  for (const Lifetime& l : lifetimes) sum += l.bytes;
  return sum;
}

// The units whose slices a write to kept[k] would change, found by their addresses.
std::vector<int> units_under(const Arena& arena, size_t k) {
  std::vector<int> under;
  const at::Tensor& saved = arena.kept[k];
  for (size_t u = 0; u < arena.gradients.size(); ++u) {
    const at::Tensor& slice = arena.slices[u].defined() ? arena.slices[u] : arena.gradients[u];
    if (saved.defined() && slice.defined() && saved.storage_offset() < slice.storage_offset() + slice.numel() &&
        slice.storage_offset() < saved.storage_offset() + saved.numel())
      under.push_back(static_cast<int>(u));
  }
  return under;
}

TEST(Arena, RandomLifetimesNeverShareWhatLives) {
  std::mt19937 random(1);
  int64_t shared = 0;
  size_t waits = 0;
  for (int round = 0; round < 150; ++round) {
    const auto lifetimes = [&](unsigned most) {
      std::vector<Lifetime> list;
      for (unsigned i = random() % most; i > 0; --i) {
        const int first = static_cast<int>(random() % 12);
        list.push_back({.bytes = static_cast<int64_t>(random() % 4 == 0 ? 0 : 1 + random() % 3000),
                        .first = first,
                        .last = first + static_cast<int>(random() % 8)});
      }
      return list;
    };
    const std::vector<Lifetime> kept = lifetimes(15);
    GradientLifetimes gradients{.full = lifetimes(10), .slices = lifetimes(10)};
    gradients.slices.resize(gradients.full.size());  // of each unit both
    const ArenaPlan plan = plan_arena(kept, gradients);
    const Arena arena = make_arena(kept, gradients, at::kCPU);
    const std::vector<Placed> all = placed(arena, kept, gradients);
    expect_disjoint(all, plan.memory.bytes);
    expect_survival(all, 20);
    const int64_t sum = sum_of(kept) + sum_of(gradients.full) + sum_of(gradients.slices);
    EXPECT_EQ(plan.shared_bytes(), std::max<int64_t>(0, sum - plan.memory.bytes));
    EXPECT_EQ(arena.shared_bytes, plan.shared_bytes());
    ASSERT_EQ(plan.buffers.size(), all.size());
    shared += arena.shared_bytes;
    ASSERT_EQ(arena.gradients_under.size(), kept.size());
    for (size_t k = 0; k < kept.size(); ++k) {
      EXPECT_EQ(arena.gradients_under[k], units_under(arena, k)) << k;
      waits += arena.gradients_under[k].size();
    }
  }
  EXPECT_GT(waits, 100U);
  EXPECT_GT(shared, 100'000) << "memory is shared at all";
}

TEST(Arena, GradientsTakeThePlaceOfDeadActivations) {
  const std::vector<Lifetime> kept = {{1000, 0, 5}, {1000, 1, 4}, {1000, 2, 3}};
  const GradientLifetimes gradients{.full = {{500, 5, 9}, {0, 4, 9}, {500, 4, 9}},
                                    .slices = {{0, 0, 9}, {0, 0, 9}, {0, 0, 9}}};
  const Arena arena = make_arena(kept, gradients, at::kCPU);
  EXPECT_EQ(arena.shared_bytes, 4000 - 3 * 1024);
  EXPECT_FALSE(arena.gradients[1].defined());
  for (const size_t gradient : {0, 2}) {
    const int64_t offset = arena.gradients[gradient].storage_offset();
    EXPECT_LT(offset, 3 * 1024);
    // The top block's activations are dead when the first gradient is written.
    EXPECT_EQ(offset / 1024, arena.kept[2].storage_offset() / 1024) << gradient;
  }
}

TEST(Arena, NothingTakesNothing) {
  const Arena none = make_arena({}, {}, at::kCPU);
  EXPECT_TRUE(none.kept.empty() && none.gradients.empty() && none.slices.empty());
  const std::vector<Lifetime> kept = {{0, 0, 3}, {0, 1, 2}};
  const Arena empty = make_arena(kept, {.full = {{0, 1, 4}}, .slices = {{0, 1, 4}}}, at::kCPU);
  EXPECT_FALSE(empty.kept[0].defined() || empty.kept[1].defined() || empty.gradients[0].defined());
  EXPECT_EQ(empty.shared_bytes, 0);
  EXPECT_EQ(plan_arena(kept, {}).memory.bytes, 0);
}

// Three blocks, the lowest without a backward; F0 F1 B0 B1 in two slots.
TEST(Arena, ActivationsLiveFromForwardToTheLastUseInTheirSlot) {
  const StepBlocks blocks{.count = 3, .first_trainable = 1, .backward_reads = {false, true, true}};
  const std::vector<Action> actions = {{.pass = Pass::forward, .micro_batch = 0, .slot = 0},
                                       {.pass = Pass::forward, .micro_batch = 1, .slot = 1},
                                       {.pass = Pass::backward, .micro_batch = 0, .slot = 0},
                                       {.pass = Pass::backward, .micro_batch = 1, .slot = 1, .last = true}};
  const std::vector<int64_t> bytes = {10, 20, 30};
  const std::vector<Lifetime> kept = kept_lifetimes(Moments(actions, blocks), 2, bytes);
  ASSERT_EQ(kept.size(), 6U);
  EXPECT_TRUE(same(kept[0], 10, 0, 0)) << "no backward";
  EXPECT_TRUE(same(kept[1], 20, 1, 7));
  EXPECT_TRUE(same(kept[2], 30, 2, 6));
  EXPECT_TRUE(same(kept[3], 10, 3, 3));
  EXPECT_TRUE(same(kept[4], 20, 4, 9));
  EXPECT_TRUE(same(kept[5], 30, 5, 8));
}

ParameterSpec parameter(std::string name, std::vector<int64_t> shape, bool trainable = true) {
  return {.name = std::move(name), .shape = std::move(shape), .trainable = trainable};
}

// A table of blocks 0 and 4, a frozen layer, and a vector of blocks 1 to 3.
std::vector<BlockParameters> model() {
  return {{BlockKind::embedding, {parameter("table", {11, 17})}},
          {BlockKind::layer, {parameter("w1", {17, 13}), parameter("norm", {17})}},
          {BlockKind::layer, {parameter("w2", {17, 13}, false), parameter("norm", {17})}},
          {BlockKind::layer, {parameter("w3", {17, 29}), parameter("norm", {17})}},
          {BlockKind::head, {parameter("table", {11, 17})}}};
}

TEST(Arena, GradientsLiveFromTheirFirstWriterToTheUpdate) {
  const StepBlocks blocks{.count = 5, .first_trainable = 0, .backward_reads = std::vector<bool>(5, true)};
  const Moments moments(one_stage(1).actions, blocks);  // forward 0-4, backward 5 (block 4) to 9 (block 0)
  const UnitPlan plan = plan_units(
      model(), {.ranks = 2, .matrix_gradient = DType::bf16, .matrix_gradient_sum = DType::fp32, .layers_per_unit = 1});
  std::map<std::string, size_t> unit;
  for (size_t u = 0; u < plan.units.size(); ++u) unit[plan.units[u].layout.parameters[0].name] = u;
  const auto lifetimes = [&](const Sharding& sharding, int micro_batches = 1) {
    return gradient_lifetimes(plan, plan_gradients(plan, sharding, micro_batches), moments, micro_batches);
  };

  // ZeRO-1: full gradients of their own, and slices beside them.
  const GradientLifetimes one = lifetimes({.ranks = 2});
  ASSERT_EQ(one.full.size(), plan.units.size());
  ASSERT_EQ(one.slices.size(), plan.units.size());
  EXPECT_TRUE(same(one.full[unit["table"]], 256 * 4, 5, 10)) << "the head writes it first";
  EXPECT_TRUE(same(one.full[unit["w3"]], 512 * 2, 6, 10)) << "17 * 29 elements, aligned, in bf16";
  EXPECT_TRUE(same(one.full[unit["w1"]], 256 * 2, 8, 10));
  EXPECT_EQ(one.full[unit["w2"]].bytes, 0) << "frozen";
  EXPECT_TRUE(same(one.full[unit["norm"]], 256 * 4, 6, 10));
  EXPECT_TRUE(same(one.slices[unit["table"]], 128 * 4, 9, 10)) << "reduced behind the embedding";
  EXPECT_TRUE(same(one.slices[unit["w3"]], 256 * 4, 6, 10)) << "half of it, summed in fp32";
  EXPECT_TRUE(same(one.slices[unit["norm"]], 128 * 4, 8, 10));
  EXPECT_EQ(one.slices[unit["w2"]].bytes, 0);

  // ZeRO-0: the full gradient is the slice. ZeRO-2: shared buffers, only slices.
  const GradientLifetimes zero = lifetimes({}), two = lifetimes({.ranks = 2, .gradients = true});
  for (size_t u = 0; u < plan.units.size(); ++u) {
    EXPECT_EQ(zero.full[u].bytes, one.full[u].bytes);
    EXPECT_EQ(zero.slices[u].bytes, 0);
    EXPECT_EQ(two.full[u].bytes, 0);
    EXPECT_EQ(two.slices[u].bytes, one.slices[u].bytes);
  }

  // Activations come back before the update where several micro-batches add to a gradient.
  const GradientLifetimes many = lifetimes({.ranks = 2}, 2);
  EXPECT_EQ(sum_of(many.full) + sum_of(many.slices), 0);
}

// A step of random models at random stages: nothing that lives is overwritten, whoever writes first.
TEST(Arena, StepsOfRandomModelsSurvive) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int layers = 1 + static_cast<int>(random() % 6);
    const auto extent = [&] { return static_cast<int64_t>(1 + random() % 40); };
    const auto matrix = [&](const std::string& name) {
      return parameter(name, {extent(), extent()}, random() % 5 != 0);
    };
    std::vector<BlockParameters> list = {{BlockKind::embedding, {matrix("table")}}};
    for (int l = 0; l < layers; ++l)
      list.push_back({BlockKind::layer, {matrix(fmt::format("w{}", l)), parameter(fmt::format("b{}", l), {extent()})}});
    list.push_back({BlockKind::head, {random() % 2 == 0 ? list[0].parameters[0] : matrix("head")}});
    const Sharding sharding{.ranks = 1 + static_cast<int>(random() % 3), .gradients = random() % 2 == 0};
    const UnitPlan plan =
        plan_units(list, {.ranks = sharding.ranks, .layers_per_unit = 1 + static_cast<int>(random() % 3)});
    StepBlocks blocks{.count = layers + 2, .first_trainable = first_trainable_block(plan), .backward_reads = {}};
    blocks.backward_reads.assign(static_cast<size_t>(blocks.count), true);
    const Moments moments(one_stage(1).actions, blocks);
    std::vector<int64_t> bytes;
    for (int b = 0; b < blocks.count; ++b) bytes.push_back(random() % 4 == 0 ? 0 : 37 * extent());
    const std::vector<Lifetime> kept = kept_lifetimes(moments, 1, bytes);
    const GradientLifetimes gradients = gradient_lifetimes(plan, plan_gradients(plan, sharding, 1), moments, 1);
    const std::vector<Placed> all = placed(make_arena(kept, gradients, at::kCPU), kept, gradients);
    expect_disjoint(all, plan_arena(kept, gradients).memory.bytes);
    expect_survival(all, moments.update());
    for (const Placed& p : all) {
      if (p.lifetime.bytes == 0) continue;
      EXPECT_GE(p.lifetime.first, 0);
      EXPECT_LE(p.lifetime.first, p.lifetime.last);
    }
  }
}

}  // namespace
}  // namespace partita::internal
