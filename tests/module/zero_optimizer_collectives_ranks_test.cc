// What ZeroOptimizer sends: the number of collectives of a step and their bytes, which the losses do not show.
#include <limits>

#include "partita/base/error.h"
#include "tests/module/recorded_mesh.h"
#include "tests/module/zero_case.h"

namespace partita::internal {
namespace {

using namespace test;

constexpr int64_t kUnits = 7;  // linears, each a unit
constexpr int64_t kWidth = 96;
constexpr int64_t kBytes = 4 * kWidth * kWidth;  // of a unit: divided by 2, 3 and 4 without padding

torch::nn::Sequential linears() {
  torch::nn::Sequential model;
  for (int64_t u = 0; u < kUnits; ++u)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
  return model;
}

// Weights of a unit are read in forward, and in backward for the gradient of its input, which the first unit's is not.
// Three units are held. The last three of forward are still there in backward; of the three that backward ends with (1,
// 2 and 3), 1 and 2 are still there when the next pass has used unit 0.
int64_t gathers_of_stage_3(int micro_batches) {
  const int64_t first_pass = kUnits + (kUnits - 1 - 3), later_pass = (kUnits - 2) + (kUnits - 1 - 3);
  return first_pass + (micro_batches - 1) * later_pass;
}

struct Expected {
  int64_t all_reduces, reduce_scatters, all_gathers;
  int64_t all_reduce_bytes;  // of gradients
};

// Of n bytes of gradients a rank sends 2 n (N - 1) / N in an all-reduce, n (N - 1) / N in a reduce-scatter or a gather.
Expected expected_of(int stage, int micro_batches) {
  const int64_t norm = 1, same_order = 1;
  switch (stage) {
    case 0:
      return {kUnits + norm, 0, 0, kUnits * kBytes};
    case 1:
      return {norm, kUnits, kUnits, 0};
    case 2:
      return {norm, micro_batches * kUnits, kUnits, 0};
    default:
      return {norm + same_order, micro_batches * kUnits, gathers_of_stage_3(micro_batches), 0};
  }
}

TEST(ZeroOptimizer, CollectivesOfAStepAreCounted) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  RecordedMesh recorded;
  RecordingCommunicator& data = *recorded.data;
  for (const int stage : {0, 1, 2, 3})
    for (const int micro_batches : {1, 3})
      for (const double max_norm : {0.0, 1e-3})
        for (const bool overlap : {true, false}) {
          const std::string what =
              fmt::format("stage {}, {} passes, norm {}, overlap {}", stage, micro_batches, max_norm, overlap);
          torch::nn::Sequential model = linears();
          ZeroOptimizer optimizer(named(*model), recorded.mesh,
                                  {.stage = stage,
                                   .max_norm = max_norm,
                                   .micro_batches = micro_batches,
                                   .overlap = overlap,
                                   .unit_elements = 1});
          for (int step = 0; step < 3; ++step) {
            data.clear();
            for (int m = 0; m < micro_batches; ++m) model->forward(torch::ones({2, kWidth})).sum().backward();
            optimizer.step();
            // The sequence of units is learned in the first step.
            EXPECT_EQ(data.count("broadcast"), step == 0 ? 1 : 0) << what;
            const Expected e = expected_of(stage, micro_batches);
            EXPECT_EQ(data.count("all_reduce"), e.all_reduces) << what << ", step " << step;
            EXPECT_EQ(data.count("reduce_scatter"), e.reduce_scatters) << what << ", step " << step;
            EXPECT_EQ(data.count("all_gather"), e.all_gathers) << what << ", step " << step;
            EXPECT_EQ(data.bytes("reduce_scatter"), e.reduce_scatters * kBytes) << what << ", step " << step;
            EXPECT_EQ(data.bytes("all_gather"), e.all_gathers * kBytes) << what << ", step " << step;
            // Of the norm a number in double; of the order two integers.
            EXPECT_EQ(data.bytes("all_reduce"), e.all_reduce_bytes + 8 + (stage == 3 ? 16 : 0))
                << what << ", step " << step;
            int64_t others = 0;
            for (const CollectiveRecord& record : data.records())
              others += record.kind != "broadcast" && record.kind != "all_reduce" && record.kind != "reduce_scatter" &&
                        record.kind != "all_gather";
            EXPECT_EQ(others, 0) << what;
          }
        }
}

// The largest element needs a maximum, and a sum that shows what is not finite.
TEST(ZeroOptimizer, CollectivesOfNormsAreCounted) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  RecordedMesh recorded;
  for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    torch::nn::Sequential model = linears();
    ZeroOptimizer optimizer(named(*model), recorded.mesh, {.stage = 1, .norm_type = p, .unit_elements = 1});
    model->forward(torch::ones({2, kWidth})).sum().backward();
    recorded.data->clear();
    optimizer.step();
    EXPECT_EQ(recorded.data->count("all_reduce"), p == std::numeric_limits<double>::infinity() ? 2 : 1) << p;
  }
}

// A step with fewer passes than micro_batches reduces what waits for the last one; zero_grad sends nothing.
TEST(ZeroOptimizer, CollectivesOfAnIncompleteStepAreCounted) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  RecordedMesh recorded;
  RecordingCommunicator& data = *recorded.data;
  for (const int stage : {0, 1, 2}) {
    torch::nn::Sequential model = linears();
    ZeroOptimizer optimizer(named(*model), recorded.mesh, {.stage = stage, .micro_batches = 3, .unit_elements = 1});
    const auto pass = [&] { model->forward(torch::ones({2, kWidth})).sum().backward(); };
    pass();
    optimizer.step();
    data.clear();
    pass();
    const int64_t in_backward = data.count("reduce_scatter") + data.count("all_reduce");
    EXPECT_EQ(in_backward, stage == 2 ? kUnits : 0) << "stage " << stage;
    optimizer.zero_grad();
    EXPECT_EQ(std::ssize(data.records()), in_backward) << "stage " << stage;
    data.clear();
    pass();
    optimizer.step();
    const Expected e = expected_of(stage, 1);
    EXPECT_EQ(data.count("all_reduce"), e.all_reduces) << "stage " << stage;
    EXPECT_EQ(data.count("reduce_scatter"), e.reduce_scatters) << "stage " << stage;
    EXPECT_EQ(data.count("all_gather"), e.all_gathers) << "stage " << stage;
  }
}

}  // namespace
}  // namespace partita::internal
