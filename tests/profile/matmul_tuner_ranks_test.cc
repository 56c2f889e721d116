// Rank 0 chooses for all ranks, from its own measurements or from a file that only rank 0 reads and writes.
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/profile/tuner_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::TunerCase;

TEST(MatmulTuner, AllRanksUseWhatRankZeroChose) {
  const std::unique_ptr<Communicator> host = test_world().group("tuning", test_ranks());
  const TemporaryDirectory folder;  // each rank's own
  const bool first = host->rank() == 0;
  const std::vector<MatmulChoice> chosen = {{"64 32 8", "a1"}, {"1 2 3 add", "b0"}};
  const auto file = folder / "matmul_tuning.json";
  for (const bool again : {false, true}) {
    TunerCase card("cuBLASLt 1, card");
    // The others measured otherwise, and a product that rank 0 does not know.
    if (!first) card.times = {{"64 32 8", {"a0", "a1"}, {{1}, {2}}}, {"5 5 5", {"d0", "d1"}, {{2}, {1}}}};
    if (again && !first) write_file(file, "no file of tuned products");
    MatmulTuner tuner(*host, card.library(), {.kept = file, .tune = true, .record_steps = card.record_steps()});
    EXPECT_EQ(tuner.running(), !again);
    card.run(tuner);
    EXPECT_EQ(card.in_use, chosen);
    EXPECT_EQ(tuner.products(), 2U);
    EXPECT_EQ(card.rounds.size(), again ? 0U : static_cast<size_t>(MatmulTuner::kSteps - MatmulTuner::kWarmSteps));
    EXPECT_EQ(std::filesystem::exists(file), first || again);
    if (first) {
      EXPECT_EQ(parse_matmul_tuning(read_file(file), "kept").library, "cuBLASLt 1, card");
    }
  }
}

}  // namespace
}  // namespace partita::internal
