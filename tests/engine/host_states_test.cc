// States in host memory: what is allocated for which units, the order of updates, and that copies to the device never
// meet the next update in a staging buffer.
#include "partita/engine/host_states.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"
#include "tests/support/error_message.h"
#include "tests/support/late_copies.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

// Layers of these numbers of elements, one unit each; 0: frozen.
UnitPlan plan_of(const std::vector<int64_t>& counts, int ranks = 1, StatesShares shares = {.host = 1}) {
  std::vector<BlockParameters> blocks;
  for (size_t i = 0; i < counts.size(); ++i)
    blocks.push_back(
        {BlockKind::layer,
         {{.name = fmt::format("w{}", i), .shape = {std::max<int64_t>(counts[i], 1), 1}, .trainable = counts[i] > 0}}});
  UnitPlan plan = plan_units(blocks, {.ranks = ranks, .layers_per_unit = 1});
  place_states(plan, shares, /*one_reduction=*/true);
  return plan;
}

at::Tensor flat(int64_t count, DType dtype) { return at::zeros({count}, at::TensorOptions(scalar_type(dtype))); }

bool all_equal(const at::Tensor& t, double value) { return t.eq(value).all().item<bool>(); }

TEST(HostStates, AreZeroSlicesOfTrainableUnits) {
  const UnitPlan plan = plan_of({1000, 0, 129, 5000}, 3);
  const std::vector<int64_t> slices = {384, 0, 128, 1792};  // a third, in multiples of 128
  const auto copies = make_copies(at::kCPU);
  for (const DType master : {DType::fp32, DType::bf16})
    for (const int states : {0, 1, 2}) {
      HostStates host(plan, {.master = master, .weight = DType::bf16, .states = states}, *copies);
      for (int u = 0; u < 4; ++u) {
        const int64_t count = slices[static_cast<size_t>(u)];
        EXPECT_EQ(host.master(u).defined(), count > 0);
        EXPECT_EQ(host.weight(u).defined(), count > 0);
        EXPECT_EQ(host.states(u).size(), count > 0 ? static_cast<size_t>(states) : 0U);
        if (count == 0) continue;
        EXPECT_EQ(host.master(u).numel(), count);
        EXPECT_EQ(dtype_of(host.master(u)), master);
        EXPECT_TRUE(all_equal(host.master(u), 0));
        EXPECT_EQ(host.weight(u).numel(), count);
        EXPECT_EQ(dtype_of(host.weight(u)), DType::bf16);
        EXPECT_EQ(host.weight(u).is_same(host.master(u)), master == DType::bf16) << "no separate master weights";
        for (const at::Tensor& state : host.states(u)) {
          EXPECT_EQ(state.numel(), count);
          EXPECT_EQ(dtype_of(state), master);
          EXPECT_TRUE(all_equal(state, 0));
        }
      }
      // Two staging buffers in the weight dtype, of the largest unit each; the frozen one does not count.
      const int64_t elements = 384 + 128 + 1792, staging = master == DType::bf16 ? 0 : 2 * 1792;
      EXPECT_EQ(host.bytes(), (1 + states) * elements * size_of(master) + staging * 2);
    }
}

TEST(HostStates, BuffersOfAUnitAreItsOwn) {
  const UnitPlan plan = plan_of({700, 300, 0, 500, 900});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {.weight = DType::fp16, .states = 2}, *copies);
  int number = 0;
  const auto each = [&](auto visit) {
    number = 0;
    for (const int u : {0, 1, 3, 4}) {
      visit(host.master(u));
      for (const at::Tensor& state : host.states(u)) visit(state);
    }
  };
  each([&](const at::Tensor& t) { t.fill_(++number); });
  for (const int u : {0, 1, 3, 4}) host.weight(u).fill_(-1);
  each([&](const at::Tensor& t) { EXPECT_TRUE(all_equal(t, ++number)) << number; });
}

// Whichever units are updated: each of them while the weights of the one before leave.
TEST(HostStates, StagingBuffersAreUsedInTurn) {
  const UnitPlan plan = plan_of({700, 300, 500, 900});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {.weight = DType::fp16, .states = 2}, *copies);
  std::vector<const void*> used;
  for (const int u : {3, 1, 0, 2}) {
    const at::Tensor slice = flat(plan.units[static_cast<size_t>(u)].layout.slice_count(), DType::fp16);
    host.update(u, slice, {}, [&, u] { used.push_back(host.weight(u).const_data_ptr()); }).wait();
  }
  EXPECT_EQ(used[0], used[2]);
  EXPECT_EQ(used[1], used[3]);
  EXPECT_NE(used[0], used[1]);
}

// Down to the host, changed there, and up again, whatever is late.
TEST(HostStates, EveryUnitGetsTheWeightsOfItsOwnUpdate) {
  const TemporaryDirectory folder;
  std::mt19937 random(1);
  for (const unsigned share : {0U, 20U, 60U, 100U})
    for (const DType weight : {DType::bf16, DType::fp32})
      for (int round = 0; round < 10; ++round) {
        std::vector<int64_t> counts;
        for (size_t u = 1 + random() % 7; u > 0; --u)
          counts.push_back(static_cast<int64_t>(random() % 4 == 0 ? 0 : 1 + random() % 2000));
        const double disk = round % 3 / 2.0;  // none, half, all
        const UnitPlan plan = plan_of(counts, 1, {.host = 1 - disk, .disk = disk});
        test::LateCopies copies(static_cast<unsigned>(random()), share);
        HostStates host(plan, {.weight = weight, .states = 1, .folder = folder.path()}, copies);
        const auto units = static_cast<int>(plan.units.size());
        std::vector<at::Tensor> slices;
        for (const Unit& unit : plan.units) slices.push_back(flat(unit.layout.slice_count(), weight));
        for (int step = 1; step <= 3; ++step) {
          std::vector<std::pair<int, Event>> updated;
          for (int u = 0; u < units; ++u) {
            if (!host.master(u).defined()) continue;
            updated.emplace_back(u, host.update(u, slices[static_cast<size_t>(u)], {}, [&host, u, step] {
              host.working_states(u)[0].add_(1);
              host.working_master(u).fill_(16 * u + step);
              if (!host.weight(u).is_same(host.working_master(u))) host.weight(u).copy_(host.working_master(u));
            }));
          }
          // Whoever waits for a unit, in any order, finds its weights.
          std::ranges::shuffle(updated, random);
          for (const auto& [u, event] : updated) {
            event.wait();
            EXPECT_TRUE(event.done());
            EXPECT_TRUE(all_equal(slices[static_cast<size_t>(u)], 16 * u + step)) << "unit " << u;
          }
          host.finish();
          for (const auto& [u, event] : updated) {
            EXPECT_TRUE(all_equal(host.master(u), 16 * u + step));
            EXPECT_TRUE(all_equal(host.states(u)[0], step));
          }
        }
        // And back: what is on the device is what the host had.
        for (int u = 0; u < units; ++u) {
          if (!host.master(u).defined()) continue;
          const at::Tensor back = at::empty_like(slices[static_cast<size_t>(u)]);
          copies.down(back, slices[static_cast<size_t>(u)], {}).wait();
          EXPECT_TRUE(back.equal(host.master(u).to(back.scalar_type())));
        }
      }
}

// Without waiting for single units: three steps at once, of which the last stays.
TEST(HostStates, FinishWaitsForEverything) {
  for (const unsigned share : {0U, 50U}) {
    const UnitPlan plan = plan_of({300, 500, 400});
    test::LateCopies copies(3, share);
    HostStates host(plan, {.weight = DType::bf16}, copies);
    std::vector<at::Tensor> slices;
    for (const Unit& unit : plan.units) slices.push_back(flat(unit.layout.slice_count(), DType::bf16));
    std::vector<int> order;
    for (int step = 1; step <= 3; ++step)
      for (int u = 0; u < 3; ++u)
        (void)host.update(u, slices[static_cast<size_t>(u)], {}, [&host, &order, u, step] {
          order.push_back(10 * step + u);
          host.weight(u).fill_(10 * step + u);
        });
    host.finish();
    EXPECT_EQ(order, (std::vector<int>{10, 11, 12, 20, 21, 22, 30, 31, 32}));
    for (int u = 0; u < 3; ++u) EXPECT_TRUE(all_equal(slices[static_cast<size_t>(u)], 30 + u)) << u;
  }
}

// An event that happens when the test says so, or calls the test when it is waited for.
struct Told final : EventState {
  explicit Told(std::function<void()> the_wait) : on_wait(std::move(the_wait)) {}
  bool test() override { return false; }
  void wait() override { on_wait(); }
  std::function<void()> on_wait;
};

// What still reads the slice is not overwritten; the update itself need not wait for it.
TEST(HostStates, TheSliceIsWrittenAfterItsReaders) {
  const UnitPlan plan = plan_of({200});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {.weight = DType::bf16}, *copies);
  const at::Tensor slice = flat(256, DType::bf16);
  slice.fill_(7);
  bool worked = false, waited = false;
  const Event readers(std::make_shared<Told>([&] {
    waited = true;
    EXPECT_TRUE(worked);
    EXPECT_TRUE(all_equal(slice, 7));
  }));
  host.update(0, slice, readers,
              [&] {
                EXPECT_FALSE(waited);
                worked = true;
                host.weight(0).fill_(1);
              })
      .wait();
  EXPECT_TRUE(waited);
  EXPECT_TRUE(all_equal(slice, 1));
}

TEST(HostStates, UpdatesRunBesideTheCaller) {
  const UnitPlan plan = plan_of({200, 100});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {}, *copies);
  const at::Tensor slice = flat(256, DType::fp32), second = flat(128, DType::fp32);
  std::promise<void> go;
  const Event updated = host.update(0, slice, {}, [&, ready = go.get_future().share()] {
    ready.wait();
    host.weight(0).fill_(2);
  });
  const Event after = host.update(1, second, {}, [&] { host.weight(1).fill_(3); });
  EXPECT_FALSE(updated.done());
  EXPECT_FALSE(after.done()) << "in order";
  EXPECT_TRUE(all_equal(slice, 0));
  go.set_value();
  after.wait();
  EXPECT_TRUE(updated.done());
  EXPECT_TRUE(all_equal(slice, 2) && all_equal(second, 3));
}

TEST(HostStates, ErrorsComeToWhoFinishes) {
  const UnitPlan plan = plan_of({200, 100});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {.weight = DType::bf16}, *copies);
  const at::Tensor slice = flat(256, DType::bf16), other = flat(128, DType::bf16);
  (void)host.update(0, slice, {}, [] { fail("expected this of unit {}", 0); });
  (void)host.update(1, other, {}, [&] { host.weight(1).fill_(5); });
  EXPECT_THAT(error_message([&] { host.finish(); }), HasSubstr("expected this of unit 0"));
  EXPECT_EQ(error_message([&] { host.finish(); }), "no error") << "told once";
  EXPECT_TRUE(all_equal(slice, 0));
  (void)host.update(0, flat(100, DType::bf16), {}, [] {});
  EXPECT_THAT(error_message([&] { host.finish(); }), HasSubstr("a copy of 256 BFloat16 into 100 BFloat16"));
}

}  // namespace
}  // namespace partita::internal
