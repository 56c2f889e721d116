#include "partita/optim/adamw.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "partita/shard/flat_buffer.h"

namespace partita {
namespace {

TEST(OptimizerRuns, AreAtMostTwoAndPassOverPadding) {
  const Layout layout = make_layout({{.name = "a", .shape = {5, 7}, .decay = true},
                                     {.name = "b", .shape = {3}},
                                     {.name = "c", .shape = {130}, .decay = true},
                                     {.name = "d", .shape = {9}}},
                                    1);
  // a 0..35, c 128..258, b 384..387, d 512..521
  EXPECT_EQ(optimizer_runs(layout, 0), (std::vector<OptimizerRun>{{0, 258, true}, {384, 137, false}}));
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
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<OptimizerRun> runs = optimizer_runs(layout, rank);
      EXPECT_LE(runs.size(), 2U);
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

// Against the formula in double, over several steps; padding stays zero.
TEST(AdamWOptimizer, FollowsTheFormulaByParameterKind) {
  const Layout layout = make_layout({{.name = "w", .shape = {3, 50}, .decay = true}, {.name = "b", .shape = {11}}}, 1);
  const AdamWOptimizer optimizer({.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1});
  ShardView shard{.master = flat_zeros(layout.count, DType::fp32),
                  .gradient = flat_zeros(layout.count, DType::fp32),
                  .weight = {},
                  .states = optimizer.make_states(layout.count)};
  shard.weight = shard.master;
  const auto runs = optimizer_runs(layout, 0);
  std::vector<double> w(static_cast<size_t>(layout.count)), m(w.size()), v(w.size());
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const Segment& s : slice_segments(layout, 0))
    for (int64_t i = s.in_slice; i < s.in_slice + s.count; ++i)
      w[static_cast<size_t>(i)] = shard.master.data_ptr<float>()[i] = normal(random);
  StepScalars now{.learning_rate = 0.01F, .gradient_scale = 0.5F};
  for (int64_t step = 0; step < 5; ++step) {
    now.step = step;
    for (const Segment& s : slice_segments(layout, 0))
      for (int64_t i = s.in_slice; i < s.in_slice + s.count; ++i) {
        const float raw = shard.gradient.data_ptr<float>()[i] = normal(random);
        const auto k = static_cast<size_t>(i);
        const double g = 0.5 * raw, decay = s.parameter == 0 ? 0.1 : 0, t = static_cast<double>(step) + 1;
        m[k] = 0.9 * m[k] + 0.1 * g;
        v[k] = 0.95 * v[k] + 0.05 * g * g;
        w[k] -=
            0.01 * (decay * w[k] + m[k] / (1 - std::pow(0.9, t)) / (std::sqrt(v[k] / (1 - std::pow(0.95, t))) + 1e-8));
      }
    optimizer.step(runs, shard, &now);
  }
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_NEAR(shard.master.data_ptr<float>()[i], w[i], 2e-6);
    EXPECT_NEAR(shard.states[0].data_ptr<float>()[i], m[i], 1e-6);
    EXPECT_NEAR(shard.states[1].data_ptr<float>()[i], v[i], 1e-6);
  }
  EXPECT_EQ(layout.parameters[0].name, "w");
  for (int64_t i = 150; i < 256; ++i) EXPECT_EQ(shard.master.data_ptr<float>()[i], 0) << i;
}

}  // namespace
}  // namespace partita
