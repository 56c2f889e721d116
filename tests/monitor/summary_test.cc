#include "partita/monitor/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::internal {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The run whose summary is published with the GPT2-XL tutorial: 114248 examples, 32 a step, 100000 steps are 29 epochs.
RunSummary published() {
  return {.examples = 114248,
          .micro_batch = 1,
          .global_batch = 32,
          .accumulation_steps = 1,
          .steps = 100000,
          .sequence_length = 1024,
          .parameters = 1557611200,
          .layout = "32 ranks = 32 data, ZeRO stage 1, bf16",
          .memory = {{"weights", int64_t{3} << 30}, {"gradients", int64_t{1} << 30}}};
}

TEST(Summary, HasThePublishedLines) {
  EXPECT_THAT(summary_text(published()),
              StartsWith("***** Running training *****\n"
                         "  Num examples = 114248\n"
                         "  Num Epochs = 29\n"
                         "  Instantaneous batch size per device = 1\n"
                         "  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
                         "  Gradient Accumulation steps = 1\n"
                         "  Total optimization steps = 100000\n"
                         "  Number of parameters = 1557611200\n"
                         "  Tokens per step = 32768\n"
                         "  Parallelism = 32 ranks = 32 data, ZeRO stage 1, bf16\n"));
}

TEST(Summary, MemoryAddsUp) {
  EXPECT_THAT(summary_text(published()), HasSubstr("  Memory per rank\n"
                                                   "    weights       3.0 GiB   75.0%\n"
                                                   "    gradients     1.0 GiB   25.0%\n"
                                                   "    total         4.0 GiB  100.0%\n"));
}

TEST(Summary, SaysWhereItResumes) {
  RunSummary s = published();
  EXPECT_THAT(summary_text(s), Not(HasSubstr("Resumed")));
  s.resumed_step = 500;
  EXPECT_THAT(summary_text(s), HasSubstr("Resuming after step = 500\n"));
}

TEST(Summary, TakesAnythingUnknown) {
  const std::string text = summary_text({});
  EXPECT_THAT(text, HasSubstr("Num Epochs = 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("Memory")));
}

}  // namespace
}  // namespace partita::internal
