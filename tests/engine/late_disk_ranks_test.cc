// As late_disk_test.cc, on several ranks, each with a file of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "partita/device/stream_delay.h"
#include "tests/engine/zero_reference.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;

TEST(LateDisk, EveryStageGivesTheSameBits) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Communicator> self = test_world().self(), data = test_world().group("data", test_ranks());
  const int ranks = data->size(), rank = data->rank();
  for (int stage = 0; stage <= 3; ++stage)
    for (const DType states : {DType::fp32, DType::bf16}) {
      EngineCase c{.kind = ModelKind::llama, .stage = stage, .compute = DType::bf16, .states = states};
      const auto plain = test::make_engine(c, *self, *data);
      const auto expected = test::run_steps(*plain, c, rank, ranks, 0, 5);
      c.poison = true;
      const auto seed = static_cast<unsigned>(10 * stage + rank);
      c.offload = {.disk = 1, .disk_folder = folder.path(), .copies = [seed] {
                     return std::make_unique<test::LateCopies>(seed, 30);
                   }};
      const auto engine = test::make_engine(c, *self, *data);
      set_stream_delays(2000, seed);
      const auto found = test::run_steps(*engine, c, rank, ranks, 0, 5);
      test::expect_same_bits(found, expected, *engine, *plain, fmt::format("stage {}", stage));
      set_stream_delays(0, 0);
      EXPECT_GT(engine->memory().disk, 0);
    }
}

}  // namespace
}  // namespace partita::internal
