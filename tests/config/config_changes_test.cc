#include "partita/config/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

TEST(ConfigChanges, AreNamedWithBothValues) {
  const Config before;
  Config now = before;
  EXPECT_TRUE(changed_keys(before, now).empty());
  now.optimizer.learning_rate = 0.005;
  now.schedule.kind = ScheduleKind::constant;
  now.train.threads = 3;
  now.data.path = "data/b";
  now.log.every = 1;
  now.run.directory = "elsewhere";
  now.checkpoint.resume = "x";
  std::vector<std::string> texts, quiet;
  for (const ChangedKey& c : changed_keys(before, now)) (c.changes_the_run() ? texts : quiet).push_back(c.text());
  EXPECT_THAT(texts, testing::ElementsAre("data.path: \"\" -> \"data/b\"", "optimizer.learning_rate: 0.0006 -> 0.005",
                                          "schedule.kind: \"cosine\" -> \"constant\""));
  EXPECT_THAT(quiet, testing::ElementsAre("train.threads: 0 -> 3", "log.every: 10 -> 1"));
}

// A run wrote down all that there is to compare, also where model.from is gone by now.
TEST(ConfigChanges, ASavedConfigurationReadsBack) {
  Config config;
  config.from = "/nowhere/model";
  config.model.layers = 7;
  config.train.steps = 77;
  const Config read = parse_saved_config(to_toml(config), "config.toml");
  EXPECT_TRUE(changed_keys(config, read).empty());
}

TEST(ConfigChanges, ARateThatJumpsIsSaid) {
  Config before;
  before.train.steps = 100;
  Config now = before;
  EXPECT_EQ(changed_rate(before, now, 50, 1600), std::nullopt);
  now.train.steps = 200;
  // Cosine from 6e-4 to 6e-5: at step 100 of 100 the lowest, of 200 the middle.
  EXPECT_EQ(changed_rate(before, now, 100, 3200).value_or(""),
            "learning rate at step 100: 0.00033 instead of 6e-05, because the schedule changed");
  now = before;
  now.optimizer.learning_rate *= 1.01;
  EXPECT_THAT(changed_rate(before, now, 1, 32).value_or(""), HasSubstr("instead of"));
}

}  // namespace
}  // namespace partita::internal
