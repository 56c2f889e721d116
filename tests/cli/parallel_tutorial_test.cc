// Runs the commands of docs/parallel.md: every layout is the same run.
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

class ParallelTutorial : public ShellTest {};

TEST_F(ParallelTutorial, WorksAsWritten) {
  const auto blocks = shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/parallel.md"));
  ASSERT_GE(blocks.size(), 6U);
  for (size_t i = 0; i + 1 < blocks.size(); ++i) must(blocks[i]);
  for (const char* run : {"zero", "tensor", "plan", "inline", "context", "pipeline", "interleaved", "prof", "all"}) {
    SCOPED_TRACE(run);
    expect_same_run(folder_ / "runs" / run, folder_ / "runs/one", 1e-4);
  }
  const Result evaluated = shell(blocks.back());
  ASSERT_EQ(evaluated.code, 0) << evaluated.error;
  EXPECT_THAT(evaluated.output + evaluated.error, testing::HasSubstr("perplexity"));
  EXPECT_EQ(metrics(folder_ / "runs/pipeline").size(), 10U);
}

}  // namespace
}  // namespace partita::internal::test
