// Runs the commands of docs/monitoring.md and checks their results.
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MonitoringTutorial : public ShellTest {};

TEST_F(MonitoringTutorial, WorksAsWritten) {
  const auto blocks = shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/monitoring.md"));
  ASSERT_GE(blocks.size(), 3U);
  const Result trained = shell(blocks[0]);
  ASSERT_EQ(trained.code, 0) << trained.error;
  // How long it takes is said before the first step.
  const size_t pace = trained.error.find(" parameters on the CPU, 128 tokens per step: about ");
  ASSERT_NE(pace, std::string::npos) << trained.error;
  EXPECT_THAT(trained.error.substr(pace), HasSubstr(" for 60 steps"));
  for (size_t i = 1; i < blocks.size(); ++i) must(blocks[i]);

  EXPECT_EQ(metrics(folder_ / "runs/small").size(), 60U);
  for (const char* picture : {"runs/small/loss.png", "compare.png"})
    EXPECT_THAT(read_file(folder_ / picture), StartsWith("\x89PNG\r\n")) << picture;
  EXPECT_THAT(read_file(folder_ / "compare.svg"),
              AllOf(HasSubstr("runs/small: training"), HasSubstr("runs/fast: validation"), HasSubstr("learning rate")));

  // Every tag of the table is written, into the folder of the run itself.
  std::string events;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "runs/small"))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      EXPECT_EQ(entry.path().parent_path(), folder_ / "runs/small");
      events += read_file(entry.path());
    }
  for (const char* tag :
       {"loss/train", "loss/validation", "validation/perplexity", "train/learning_rate", "train/grad_norm",
        "train/tokens_per_second", "train/seconds", "train/consumed_samples", "config"})
    EXPECT_THAT(events, HasSubstr(tag));
  EXPECT_THAT(events, Not(HasSubstr("train/loss")));
}

}  // namespace
}  // namespace partita::internal::test
