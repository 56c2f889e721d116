// Messages between two pipeline stages on two ranks.
#include "partita/engine/handover.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

constexpr int kMicroBatches = 7;

// Stages on ranks 0 and 1 of the job; null on others.
struct Pair {
  explicit Pair(bool check) {
    if (!active()) return;
    edges = std::make_unique<PipelineEdges>(test_world(), std::vector<int>{0, 1});
    const PipelineStage stage{.shape = {PipelineSchedule::gpipe, 2, 1, kMicroBatches}, .rank = test_world().rank()};
    handover = std::make_unique<Handover>(stage, 3, 5, 4, DType::fp32, at::kCPU, *edges, stream, check);
  }
  [[nodiscard]] static bool active() { return test_world().size() > 1 && test_world().rank() < 2; }

  CpuStream stream;
  std::unique_ptr<PipelineEdges> edges;
  std::unique_ptr<Handover> handover;
};

Action message(int micro_batch, Transfer transfer) {
  return {.micro_batch = micro_batch, .transfer = transfer, .peer = 1 - test_world().rank()};
}

// More messages than buffers; a part that is missing arrives as zeros.
TEST(Handover, PassesResidualsInOrder) {
  for (const bool check : {false, true}) {
    Pair pair(check);
    if (!Pair::active()) return;
    for (int m = 0; m < kMicroBatches; ++m) {
      const at::Tensor branch = at::full({5, 4}, 2.0F + m);
      if (test_world().rank() == 0) {
        pair.handover->write({.micro_batch = m}, m == 3 ? at::Tensor() : at::full({5, 4}, 100.0F + m), branch);
        pair.handover->transfer(message(m, Transfer::send));
        continue;
      }
      pair.handover->transfer(message(m, Transfer::receive));
      const auto [sum, second] = pair.handover->read({.micro_batch = m});
      EXPECT_TRUE(at::equal(sum, m == 3 ? at::zeros({5, 4}) : at::full({5, 4}, 100.0F + m))) << m;
      EXPECT_TRUE(at::equal(second, branch)) << m;
      pair.handover->release({.micro_batch = m});
    }
    pair.handover->finish();
  }
}

TEST(Handover, StampsNameAMessageOutOfOrder) {
  Pair pair(true);
  if (!Pair::active()) return;
  if (test_world().rank() == 0) {
    pair.handover->write({.micro_batch = 0}, at::zeros({5, 4}), at::zeros({5, 4}));
    pair.handover->transfer(message(0, Transfer::send));
    pair.handover->finish();
    return;
  }
  pair.handover->transfer(message(1, Transfer::receive));
  EXPECT_THAT(error_message([&] { (void)pair.handover->read({.micro_batch = 1}); }),
              testing::HasSubstr("a pipeline message is the output of stage 0, micro-batch 0, expected the output of "
                                 "stage 0, micro-batch 1"));
}

}  // namespace
}  // namespace partita::internal
