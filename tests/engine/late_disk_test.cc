// Transfers of states on disk that begin late, at random, with poison in working buffers and checksums of what is read:
// whatever is read, updated, written or copied in the wrong order gives other bits, or an error.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/comm/world.h"
#include "partita/device/scalar_type.h"
#include "partita/device/stream_delay.h"
#include "partita/engine/host_states.h"
#include "tests/engine/zero_reference.h"
#include "tests/support/error_message.h"
#include "tests/support/late_copies.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;

class LateDisk : public testing::Test {
 protected:
  void TearDown() override { set_stream_delays(0, 0); }

  TemporaryDirectory folder_;
};

// Layers of these numbers of elements, one unit each, all on disk.
UnitPlan plan_of(const std::vector<int64_t>& counts) {
  std::vector<BlockParameters> blocks;
  for (size_t i = 0; i < counts.size(); ++i)
    blocks.push_back({BlockKind::layer, {{.name = fmt::format("w{}", i), .shape = {counts[i], 1}}}});
  UnitPlan plan = plan_units(blocks, {.ranks = 1, .layers_per_unit = 1});
  place_states(plan, {.disk = 1}, /*one_reduction=*/true);
  return plan;
}

// Values that are a function of unit, tensor, step and element.
at::Tensor values(int unit, int tensor, int step, int64_t count) {
  return at::arange(count, at::kFloat).remainder(251).add(1000 * step + 100 * unit + 10 * tensor);
}

// Visits, updates and uploads of several steps are queued without waiting, for units of one and of several pieces.
TEST_F(LateDisk, UnitsHaveTheValuesOfTheirOwnLastUpdate) {
  std::mt19937 random(3);
  for (const bool own_weight : {false, true})
    for (int round = 0; round < 6; ++round) {
      std::vector<int64_t> counts;
      for (size_t u = 1 + random() % 8; u > 0; --u)
        counts.push_back(static_cast<int64_t>(random() % 5 == 0 ? 1'500'000 : 1 + random() % 5000));
      const UnitPlan plan = plan_of(counts);
      const auto units = static_cast<int>(counts.size());
      test::LateCopies copies(static_cast<unsigned>(random()), 30 * static_cast<unsigned>(round % 3));
      HostStates host(
          plan,
          {.weight = own_weight ? DType::bf16 : DType::fp32, .states = 1, .folder = folder_.path(), .poison = true},
          copies);
      const auto count = [&](int u) { return plan.units[static_cast<size_t>(u)].layout.slice_count(); };
      std::vector<at::Tensor> slices;
      for (int u = 0; u < units; ++u)
        slices.push_back(at::empty({count(u)}, own_weight ? at::kBFloat16 : at::kFloat).fill_(-1));
      const auto expect = [&](int u, int step) {
        EXPECT_TRUE(host.working_master(u).equal(values(u, 0, step, count(u)))) << u << " in step " << step;
        EXPECT_TRUE(host.working_states(u)[0].equal(values(u, 1, step, count(u)))) << u << " in step " << step;
      };
      constexpr int kSteps = 3;
      for (const int first : {0, 10}) {
        // Between steps the views are written to, as when a run takes other weights.
        for (int u = 0; u < units; ++u) {
          host.master(u).copy_(values(u, 0, first, count(u)));
          host.states(u)[0].copy_(values(u, 1, first, count(u)));
        }
        set_stream_delays(3000, random());
        for (int step = first + 1; step <= first + kSteps; ++step) {
          for (int u = 0; u < units; ++u) (void)host.visit(u, [&expect, u, step] { expect(u, step - 1); });
          for (int u = 0; u < units; ++u)
            (void)host.update(u, slices[static_cast<size_t>(u)], {}, [&, u, step] {
              expect(u, step - 1);
              host.working_master(u).copy_(values(u, 0, step, count(u)));
              host.working_states(u)[0].copy_(values(u, 1, step, count(u)));
              if (own_weight) host.weight(u).copy_(host.working_master(u));
            });
        }
        host.finish();
        set_stream_delays(0, 0);
        for (int u = 0; u < units; ++u) {
          EXPECT_TRUE(host.master(u).equal(values(u, 0, first + kSteps, count(u)))) << u;
          EXPECT_TRUE(host.states(u)[0].equal(values(u, 1, first + kSteps, count(u)))) << u;
          const at::Tensor there = at::empty_like(slices[static_cast<size_t>(u)]);
          copies.down(there, slices[static_cast<size_t>(u)], {}).wait();
          EXPECT_TRUE(there.equal(values(u, 0, first + kSteps, count(u)).to(there.scalar_type()))) << u;
        }
      }
    }
}

// What only derives weights does not write to the disk, also where it changes what it should not.
TEST_F(LateDisk, UploadsWriteNothing) {
  const UnitPlan plan = plan_of({700, 3000, 200});
  const auto copies = make_copies(at::kCPU);
  HostStates host(plan, {.weight = DType::bf16, .states = 1, .folder = folder_.path()}, *copies);
  std::vector<at::Tensor> slices;
  for (int u = 0; u < 3; ++u) {
    host.master(u).fill_(u + 1);
    slices.push_back(at::empty({host.master(u).numel()}, at::kBFloat16));
  }
  for (int u = 0; u < 3; ++u)
    (void)host.upload(u, slices[static_cast<size_t>(u)], {}, [&host, u] {
      host.weight(u).copy_(host.working_master(u));
      host.working_master(u).fill_(7);
    });
  host.finish();
  for (int u = 0; u < 3; ++u) {
    EXPECT_TRUE(slices[static_cast<size_t>(u)].eq(u + 1).all().item<bool>()) << u;
    EXPECT_TRUE(host.master(u).eq(u + 1).all().item<bool>()) << u;
  }
}

TEST_F(LateDisk, TrainingGivesTheSameBits) {
  World world = World::connect({});
  const std::unique_ptr<Communicator> self = world.self();
  int number = 0;
  for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb})
    for (const DType states : {DType::fp32, DType::bf16})
      for (const int micro_batches : {1, 2}) {
        ++number;
        EngineCase c{.kind = number % 2 == 0 ? ModelKind::gpt2 : ModelKind::llama,
                     .stage = number % 3,
                     .micro_batches = micro_batches,
                     .compute = DType::bf16,
                     .states = states,
                     .optimizer = optimizer};
        const auto plain = test::make_engine(c, *self, *self);
        const auto expected = test::run_steps(*plain, c, 0, 1, 0, 5);
        c.poison = true;
        const auto seed = static_cast<unsigned>(number);
        c.offload = {.optimizer = number % 4 == 0 ? 0.3 : 0.0,
                     .disk = number % 4 == 0 ? 0.5 : 1.0,
                     .disk_folder = folder_.path(),
                     .copies = [seed] { return std::make_unique<test::LateCopies>(seed, 30); }};
        const auto engine = test::make_engine(c, *self, *self);
        set_stream_delays(2000, seed);
        const auto found = test::run_steps(*engine, c, 0, 1, 0, 5);
        test::expect_same_bits(found, expected, *engine, *plain, fmt::format("number {}", number));
        set_stream_delays(0, 0);
      }
}

}  // namespace
}  // namespace partita::internal
