// Pipelines and tensor-parallel ranks whose optimizer states are in host memory or on disk train as without offload,
// bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/mesh_groups.h"
#include "tests/engine/zero_reference.h"
#include "tests/support/late_copies.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::MeshGroups;

struct Layout {
  PipelineSchedule schedule;
  int chunks, stage, micro_batches;
};

const std::vector<Layout> kLayouts = {
    {PipelineSchedule::gpipe, 1, 0, 3},       {PipelineSchedule::one_f_one_b, 1, 1, 2},
    {PipelineSchedule::one_f_one_b, 1, 2, 1}, {PipelineSchedule::interleaved, 2, 3, 6},
    {PipelineSchedule::zb_h1, 1, 0, 1},       {PipelineSchedule::zb_h1, 1, 2, 3},
    {PipelineSchedule::zbv, 2, 1, 2},         {PipelineSchedule::dual_pipe_v, 2, 3, 6}};

TEST(PipelineOffload, GivesTheSameBits) {
  for (const TiedHead tied : {TiedHead::yes, TiedHead::no})
    for (const int pipeline : {2, 3, 4})
      for (const Layout& l : kLayouts)
        for (const double fraction : {0.4, 1.0}) {
          if (test_world().size() % pipeline != 0 || pipeline * l.chunks > 7) continue;
          EngineCase c{.kind = ModelKind::llama,
                       .tied_head = tied,
                       .stage = l.stage,
                       .samples = 1,
                       .micro_batches = l.micro_batches,
                       .compute = DType::bf16,
                       .schedule = l.schedule,
                       .chunks = l.chunks};
          if (l.stage == 1) c.optimizer = OptimizerKind::lamb;
          const bool splits = l.schedule == PipelineSchedule::zb_h1 || l.schedule == PipelineSchedule::zbv ||
                              l.schedule == PipelineSchedule::dual_pipe_v;
          const MeshGroups groups({.pipeline = pipeline}, test::model_of(c));
          const int rank = groups.data->rank(), ranks = groups.data->size();
          const auto plain = groups.engine(c);
          const auto expected = test::run_steps(*plain, c, rank, ranks, 0, 3);
          c.poison = true;
          c.offload = {.optimizer = fraction,
                       .weights = l.stage == 2 ? 0 : fraction,
                       .activations = splits ? 0 : 9,
                       .copies = [rank]() -> std::unique_ptr<Copies> {
                         return std::make_unique<test::LateCopies>(static_cast<unsigned>(rank) + 1, 30);
                       }};
          const auto engine = groups.engine(c);
          const auto found = test::run_steps(*engine, c, rank, ranks, 0, 3);
          const std::string what =
              fmt::format("{}, pipeline {}, stage {}, {} micro-batches, fraction {}, tied {}", name_of(l.schedule),
                          pipeline, l.stage, l.micro_batches, fraction, tied == TiedHead::yes);
          test::expect_same_bits(found, expected, *engine, *plain, what);
          const EngineMemory m = engine->memory();
          EXPECT_EQ(m.host > 0, std::ranges::any_of(engine->plan().units, &Unit::on_host)) << what;
          if (fraction == 1) {
            EXPECT_GT(m.host, 0) << what;
            EXPECT_EQ(m.master + m.optimizer, 0) << what;
          }
        }
}

// Heads and tables that do not divide evenly: each rank has slices of other sizes, and LAMB sums norms over the group.
TEST(TensorOffload, RanksDecideAlike) {
  const int tensor = test_world().size();
  const TemporaryDirectory folder;
  for (const int percent : {2, 20, 35, 58, 80, 100})
    for (const OptimizerKind optimizer : {OptimizerKind::lamb, OptimizerKind::adamw}) {
      EngineCase c{.compute = DType::bf16, .optimizer = optimizer, .heads = 5};
      const MeshGroups groups({.tensor = tensor}, test::model_of(c));
      const auto plain = groups.engine(c);
      const auto expected = test::run_steps(*plain, c, 0, 1, 0, 3);
      c.offload = {.optimizer = percent / 200.0, .disk = percent / 200.0, .disk_folder = folder.path()};
      const auto engine = groups.engine(c);
      const auto found = test::run_steps(*engine, c, 0, 1, 0, 3);
      const std::string what = fmt::format("{} percent, {}", percent, name_of(optimizer));
      test::expect_same_bits(found, expected, *engine, *plain, what);
      std::vector<float> places;
      for (const Unit& unit : engine->plan().units) places.push_back(static_cast<float>(unit.states));
      test::expect_equal_on_ranks(places, *groups.tensor, what);
    }
}

}  // namespace
}  // namespace partita::internal
