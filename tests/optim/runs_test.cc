#include "partita/optim/runs.h"

#include <gtest/gtest.h>

#include <random>

#include "partita/base/random.h"

namespace partita::internal {
namespace {

std::vector<OptimizerRun> runs_of(const Layout& layout, int rank, DType master) {
  return optimizer_runs(layout, slice_segments(layout, rank), master);
}

TEST(OptimizerRuns, AreAtMostTwoInFp32AndPassOverPadding) {
  const Layout layout = make_layout({{.name = "a", .shape = {5, 7}, .decay = true},
                                     {.name = "b", .shape = {3}},
                                     {.name = "c", .shape = {130}, .decay = true},
                                     {.name = "d", .shape = {9}}},
                                    1);
  // a 0..35, c 128..258, b 384..387, d 512..521
  EXPECT_EQ(runs_of(layout, 0, DType::fp32), (std::vector<OptimizerRun>{{0, 258, true, {}}, {384, 137, false, {}}}));
}

TEST(OptimizerRuns, AreThoseOfTheParametersInBf16) {
  const Layout layout =
      make_layout({{.name = "a", .shape = {300}, .decay = true}, {.name = "b", .shape = {3}, .decay = true}}, 2);
  // a 0..300, b 384..387; slices of 256
  EXPECT_EQ(runs_of(layout, 0, DType::bf16), (std::vector<OptimizerRun>{{0, 256, true, {hash_of("a"), 0}}}));
  EXPECT_EQ(runs_of(layout, 1, DType::bf16),
            (std::vector<OptimizerRun>{{0, 44, true, {hash_of("a"), 256}}, {128, 3, true, {hash_of("b"), 0}}}));
}

TEST(OptimizerRuns, CoverEverySegmentWithItsOwnDecay) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<ParameterSpec> parameters;
    for (unsigned k = random() % 6; k > 0; --k)
      parameters.push_back(
          {.name = std::to_string(k), .shape = {static_cast<int64_t>(random() % 700)}, .decay = random() % 2 == 0});
    const int ranks = 1 + static_cast<int>(random() % 5);
    const Layout layout = make_layout(parameters, ranks);
    for (int rank = 0; rank < ranks; ++rank)
      for (DType master : {DType::fp32, DType::bf16}) {
        const std::vector<OptimizerRun> runs = runs_of(layout, rank, master);
        if (master == DType::fp32) {
          EXPECT_LE(runs.size(), 2U);
        }
        for (const Segment& s : slice_segments(layout, rank)) {
          int covering = 0;
          for (const OptimizerRun& r : runs)
            if (r.begin <= s.in_slice && s.in_slice + s.count <= r.begin + r.count) {
              ++covering;
              EXPECT_EQ(r.decay, layout.parameters[static_cast<size_t>(s.parameter)].decay);
            }
          EXPECT_EQ(covering, 1);
        }
      }
  }
}

}  // namespace
}  // namespace partita::internal
