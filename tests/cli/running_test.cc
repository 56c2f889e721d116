// Runs the commands of docs/running.md in order.
#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/cli/metrics.h"
#include "tests/cli/run_folder.h"
#include "tests/cli/tutorial.h"

namespace partita::internal::test {
namespace {

class Running : public ShellTest {};

TEST_F(Running, TheCommandsWorkAsWritten) {
  for (const std::string& block : shell_blocks(read_file(PARTITA_SOURCE_DIR "/docs/running.md"))) must(block);
  const auto steps = [&](const char* run) { return metrics(folder_ / "runs" / run).size(); };
  EXPECT_EQ(steps("a"), 20U);  // rewound from 25 to 10, and on to the end
  EXPECT_EQ(steps("b"), 30U);
  EXPECT_EQ(steps("c"), 22U);
  EXPECT_EQ(steps("d"), 25U - 20U);  // it began at another run's step 20, without its figures
  EXPECT_EQ(names_in(folder_ / "runs/a/checkpoints"),
            (std::vector<std::string>{"step-00000010", "step-00000015", "step-00000020"}));
  EXPECT_EQ(names_in(folder_ / "out"), (std::vector<std::string>{"step-00000020", "weights"}));
}

}  // namespace
}  // namespace partita::internal::test
