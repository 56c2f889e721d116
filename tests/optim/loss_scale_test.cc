#include "partita/optim/loss_scale.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LossScale, DoublesAfter2000CleanStepsAndHalvesOnOverflow) {
  const LossScaleOptions options;
  LossScale scale = first_loss_scale(options);
  EXPECT_EQ(scale, (LossScale{65536, 0}));
  for (int step = 1; step < 2000; ++step) {
    scale = next_loss_scale(scale, false, options);
    ASSERT_EQ(scale, (LossScale{65536, step}));
  }
  scale = next_loss_scale(scale, false, options);
  EXPECT_EQ(scale, (LossScale{131072, 0}));
  scale = next_loss_scale(scale, false, options);
  scale = next_loss_scale(scale, true, options);
  EXPECT_EQ(scale, (LossScale{65536, 0}));
  scale = next_loss_scale(scale, true, options);
  EXPECT_EQ(scale, (LossScale{32768, 0}));
}

TEST(LossScale, AnOverflowAtTheFloorIsAnError) {
  const LossScaleOptions options{.first = 2};
  const LossScale lowest = next_loss_scale(first_loss_scale(options), true, options);
  EXPECT_EQ(lowest, (LossScale{1, 0}));
  EXPECT_THAT([&] { (void)next_loss_scale(lowest, true, options); },
              ThrowsMessage<Error>(HasSubstr("overflow fp16 at the lowest scale, 1, where")));
  // It recovers if clean steps come first.
  EXPECT_EQ(next_loss_scale(lowest, false, options), (LossScale{1, 1}));
}

// Whatever comes, the scale stays a power of two within its bounds, falls only by overflows, and rises only after as
// many clean steps in a row as it should.
TEST(LossScale, KeepsItsBoundsUnderAnySequence) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    LossScaleOptions options{.first = 1024, .clean_steps = 1 + static_cast<int64_t>(random() % 5), .highest = 8192};
    LossScale scale = first_loss_scale(options);
    int64_t clean = 0;
    for (int step = 0; step < 200; ++step) {
      const bool overflow = scale.scale > options.lowest && random() % 4 == 0;
      const LossScale next = next_loss_scale(scale, overflow, options);
      int exponent = 0;
      EXPECT_EQ(std::frexp(next.scale, &exponent), 0.5F);
      EXPECT_GE(next.scale, options.lowest);
      EXPECT_LE(next.scale, options.highest);
      EXPECT_LT(next.clean_steps, options.clean_steps);
      clean = overflow ? 0 : clean + 1;
      if (overflow) {
        EXPECT_EQ(next.scale, scale.scale / 2);
      } else if (clean % options.clean_steps == 0) {
        EXPECT_EQ(next.scale, std::min(options.highest, 2 * scale.scale));
      } else {
        EXPECT_EQ(next.scale, scale.scale);
      }
      scale = next;
    }
  }
}

TEST(LossScale, WrongOptionsAreNamed) {
  EXPECT_THAT([] { (void)first_loss_scale({.first = 0.5F}); },
              ThrowsMessage<Error>(HasSubstr("starts at 0.5, expected a number from the lowest, 1,")));
  EXPECT_THAT([] { (void)first_loss_scale({.clean_steps = 0}); }, ThrowsMessage<Error>(HasSubstr("grows after 0")));
  EXPECT_THAT([] { (void)first_loss_scale({.growth = 0.5F}); }, ThrowsMessage<Error>(HasSubstr("growth is 0.5")));
  EXPECT_THAT([] { (void)first_loss_scale({.backoff = 1}); }, ThrowsMessage<Error>(HasSubstr("backoff is 1")));
}

}  // namespace
}  // namespace partita::internal
