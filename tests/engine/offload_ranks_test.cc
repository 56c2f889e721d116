// Offload over several ranks: each has its own slices in its host's memory, and every stage trains as it does without.
#include <gtest/gtest.h>

#include "tests/engine/small_model.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"

namespace partita {
namespace {

using test::EngineCase;

TEST(Offload, EveryStageGivesTheSameBits) {
  const std::unique_ptr<Communicator> self = test_world().group("self", {test_world().rank()}),
                                      data = test_world().group("data", test_ranks());
  const int ranks = data->size(), rank = data->rank();
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, 3})
      for (OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
        EngineCase c{.kind = ModelKind::llama,
                     .stage = stage,
                     .micro_batches = micro_batches,
                     .keep = Keep::entry,
                     .compute = DType::bf16,
                     .optimizer = optimizer};
        const auto plain = test::make_engine(c, *self, *data);
        const auto expected = test::run_steps(*plain, c, rank, ranks, 0, 5);
        c.poison = true;
        for (unsigned share : {0U, 30U}) {
          c.offload = {.optimizer = true, .activations = 4, .copies = [=]() -> std::unique_ptr<Copies> {
                         return std::make_unique<test::LateCopies>(static_cast<unsigned>(rank) + 1, share);
                       }};
          const auto engine = test::make_engine(c, *self, *data);
          const auto found = test::run_steps(*engine, c, rank, ranks, 0, 5);
          const std::string what = "stage " + std::to_string(stage) + ", " + std::to_string(micro_batches);
          for (size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].loss, expected[i].loss) << what;
            EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << what;
          }
          const auto values = engine->owned_runs(), wanted = plain->owned_runs();
          ASSERT_EQ(values.size(), wanted.size());
          for (size_t r = 0; r < values.size(); ++r)
            for (size_t k = 0; k < values[r].values.size(); ++k)
              EXPECT_TRUE(values[r].values[k].equal(wanted[r].values[k])) << what << values[r].parameter->name;
          const EngineMemory m = engine->memory();
          EXPECT_EQ(m.master + m.optimizer, 0);
          EXPECT_GT(m.host, 0);
        }
      }
}

}  // namespace
}  // namespace partita
