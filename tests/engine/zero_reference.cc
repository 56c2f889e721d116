#include "tests/engine/zero_reference.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace partita::internal::test {

std::vector<StepResult> reference(const EngineCase& like, Communicator& self, int64_t steps) {
  EngineCase one = like;
  one.stage = 0;
  one.poison = false;
  one.recompute = Recompute::none;
  one.samples = kGlobalBatch;
  one.micro_batches = 1;
  return run_steps(*make_engine(one, self, self), one, 0, 1, 0, steps);
}

void expect_equal(const std::vector<StepResult>& found, const std::vector<StepResult>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i].loss, expected[i].loss, tolerance * expected[i].loss) << what << ", step " << i;
    EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, tolerance * expected[i].grad_norm) << what << ", step " << i;
    EXPECT_EQ(found[i].tokens, expected[i].tokens) << what;
    EXPECT_FALSE(found[i].skipped);
  }
}

void expect_same_bits(const std::vector<StepResult>& found, const std::vector<StepResult>& expected,
                      const Engine& engine, const Engine& plain, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].loss, expected[i].loss) << what << ", step " << i;
    EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << what << ", step " << i;
  }
  const auto values = engine.owned_boxes(), wanted = plain.owned_boxes();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t r = 0; r < values.size(); ++r)
    for (size_t k = 0; k < values[r].values.size(); ++k)
      EXPECT_TRUE(values[r].values[k].equal(wanted[r].values[k])) << what << ", " << values[r].parameter->name;
}

void expect_equal_on_ranks(const std::vector<float>& values, Communicator& group, const std::string& what) {
  CpuStream stream;
  const at::Tensor highest = at::empty({std::ssize(values)}, at::TensorOptions(at::kFloat));
  std::ranges::copy(values, highest.mutable_data_ptr<float>());
  const at::Tensor lowest = -highest, mine = highest.clone();
  group.all_reduce(highest, Reduce::max, stream).wait();
  group.all_reduce(lowest, Reduce::max, stream).wait();
  EXPECT_TRUE(mine.equal(highest)) << what;
  EXPECT_TRUE(mine.equal(-lowest)) << what;
}

void expect_same_values(const Engine& found, const Engine& whole, const std::string& what, double tolerance) {
  std::map<std::string, OwnedBox> by_name;
  for (const OwnedBox& run : whole.owned_boxes()) by_name.emplace(run.parameter->name, run);
  for (const OwnedBox& run : found.owned_boxes()) {
    const OwnedBox& expected = by_name.at(run.parameter->name);
    ASSERT_EQ(run.values.size(), expected.values.size());
    for (size_t k = 0; k < run.values.size(); ++k) {
      const double largest = expected.values[k].abs().max().item<double>();
      const at::Tensor part = expected.values[k]
                                  .view({expected.box.rows, expected.box.columns})
                                  .narrow(0, run.box.row - expected.box.row, run.box.rows)
                                  .narrow(1, run.box.column - expected.box.column, run.box.columns)
                                  .reshape({-1});
      EXPECT_LE(run.values[k].sub(part).abs().max().item<double>(), tolerance * largest)
          << what << ", " << run.parameter->name << ", value " << k;
    }
  }
}

}  // namespace partita::internal::test
