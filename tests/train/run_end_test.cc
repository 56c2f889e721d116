#include "partita/train/run_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace partita::internal {
namespace {

using testing::ElementsAre;

TEST(RunEnd, SaysWhatWasDoneAndWhatIsNext) {
  RunEnd end{.first_step = 20,
             .step = 60,
             .total = 60,
             .tokens = 7680,
             .seconds = 65,
             .loss = 3.2139,
             .validation_loss = 3.3,
             .checkpoint = "runs/my/checkpoints/step-00000060",
             .run = "runs/my"};
  EXPECT_THAT(
      closing_lines(end),
      ElementsAre(
          "Finished step 60 of 60: 40 steps, 7.7k tokens in 1:05, training loss 3.214, validation loss 3.300",
          "Checkpoint: runs/my/checkpoints/step-00000060",
          "Next: partita plot runs/my; partita generate runs/my --prompt TEXT; partita eval runs/my --data FILE"));
  end.validation_loss = std::nan("");
  EXPECT_EQ(closing_lines(end)[0], "Finished step 60 of 60: 40 steps, 7.7k tokens in 1:05, training loss 3.214");
  end.tokens = 0, end.of_text = false;  // a user's module
  EXPECT_THAT(closing_lines(end),
              ElementsAre("Finished step 60 of 60: 40 steps in 1:05, training loss 3.214",
                          "Checkpoint: runs/my/checkpoints/step-00000060", "Next: partita plot runs/my"));
}

// Whatever the folder is called: the lines move no cursor, and what follows "Next:" can be pasted.
TEST(RunEnd, NamesOfFoldersAreSpelledOut) {
  const RunEnd end{.step = 1, .total = 1, .checkpoint = "a\n\x1b[2J/step", .run = "a\n\x1b[2J"};
  const std::vector<std::string> lines = closing_lines(end);
  EXPECT_EQ(lines.at(1), "Checkpoint: a\\x0a\\x1b[2J/step");
  EXPECT_EQ(lines.at(2),
            "Next: partita plot $'a\\n\\x1b[2J'; partita generate $'a\\n\\x1b[2J' --prompt TEXT; partita eval "
            "$'a\\n\\x1b[2J' --data FILE");
}

TEST(RunEnd, AnInterruptSaysHowToGoOn) {
  RunEnd end{.first_step = 0,
             .step = 1,
             .total = 60,
             .tokens = 192,
             .seconds = 1,
             .loss = 5,
             .validation_loss = std::nan(""),
             .checkpoint = "runs/my/checkpoints/step-00000001",
             .run = "runs/my",
             .interrupted = true};
  EXPECT_THAT(
      closing_lines(end),
      ElementsAre("Interrupted after step 1 of 60, checkpoint saved: 1 step, 192 tokens in 0:01, training loss 5.000",
                  "Checkpoint: runs/my/checkpoints/step-00000001", "Repeat the command to resume"));
  end.checkpoint.clear();
  EXPECT_THAT(closing_lines(end), ElementsAre("Interrupted after step 1 of 60, nothing was saved"));
  end.step = 0;
  end.reason = "the loss that fell";
  EXPECT_THAT(closing_lines(end),
              ElementsAre("Stopped by the loss that fell before the first step: there is nothing to save"));
}

}  // namespace
}  // namespace partita::internal
