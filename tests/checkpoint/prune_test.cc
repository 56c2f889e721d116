#include "partita/checkpoint/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/checkpoint/folders.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ListedCheckpoint listed(int64_t step, CheckpointState state = CheckpointState::complete) {
  std::string name = step_folder_name(step);
  if (state == CheckpointState::partial) name += ".partial";
  if (state == CheckpointState::set_aside) name += ".damaged";
  return {.name = name, .step = step, .state = state};
}

std::vector<int64_t> steps(const std::vector<ListedCheckpoint>& all) {
  std::vector<int64_t> found;
  for (const ListedCheckpoint& c : all) found.push_back(c.step);
  return found;
}

TEST(PlanPrune, KeepsTheNewestAndMilestones) {
  const std::vector<ListedCheckpoint> all = {listed(50), listed(100), listed(150), listed(200), listed(250)};
  EXPECT_THAT(steps(plan_prune(all, {.keep_last = 2}).removed), ElementsAre(50, 100, 150));
  EXPECT_THAT(steps(plan_prune(all, {.keep_last = 2}).kept), ElementsAre(200, 250));
  EXPECT_THAT(steps(plan_prune(all, {.keep_last = 1, .keep_every = 100}).removed), ElementsAre(50, 150));
  EXPECT_THAT(steps(plan_prune(all, {.keep_last = 9}).removed), IsEmpty());
  EXPECT_THAT(steps(plan_prune({}, {.keep_last = 1}).removed), IsEmpty());
}

// The newest folder is not the newest checkpoint where it cannot be used.
TEST(PlanPrune, CountsCompleteOnesAlone) {
  const std::vector<ListedCheckpoint> all = {listed(10),
                                             listed(20, CheckpointState::unreadable),
                                             listed(30),
                                             listed(30, CheckpointState::set_aside),
                                             listed(40),
                                             listed(50, CheckpointState::damaged),
                                             listed(60, CheckpointState::partial),
                                             listed(70, CheckpointState::set_aside)};
  const PrunePlan plan = plan_prune(all, {.keep_last = 1});
  EXPECT_THAT(steps(plan.removed), ElementsAre(10, 30));
  EXPECT_THAT(steps(plan.kept), ElementsAre(40));
  EXPECT_THAT(steps(plan.unusable), ElementsAre(20, 30, 50, 70));
  const std::vector<ListedCheckpoint> none = {listed(10, CheckpointState::damaged),
                                              listed(20, CheckpointState::partial)};
  EXPECT_THAT(plan_prune(none, {.keep_last = 1}).removed, IsEmpty());
  EXPECT_THAT(steps(plan_prune(none, {.keep_last = 1}).unusable), ElementsAre(10));
}

TEST(PlanPrune, NeverRemovesTheNewestComplete) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<ListedCheckpoint> all;
    int64_t newest = -1, complete = 0;
    for (int64_t step = 0; step < 12; ++step) {
      if (random() % 3 == 0) continue;
      all.push_back(listed(step * 5, static_cast<CheckpointState>(random() % 5)));
      if (all.back().state == CheckpointState::complete) newest = step * 5, ++complete;
    }
    const Retention rule{.keep_last = 1 + static_cast<int>(random() % 3),
                         .keep_every = static_cast<int64_t>(random() % 3) * 10};
    const PrunePlan plan = plan_prune(all, rule);
    EXPECT_EQ(std::ssize(plan.removed) + std::ssize(plan.kept), complete);
    EXPECT_GE(std::ssize(plan.kept), std::min<int64_t>(complete, rule.keep_last));
    for (const ListedCheckpoint& c : plan.removed) {
      EXPECT_EQ(c.state, CheckpointState::complete);
      EXPECT_LT(c.step, newest);
    }
  }
}

TEST(Leftovers, AreWhatIsNotRestored) {
  const ListedCheckpoint partial = listed(10, CheckpointState::partial);
  ListedCheckpoint replaced = listed(20, CheckpointState::partial);
  replaced.name = "step-00000020.replaced.partial";
  EXPECT_THAT(steps(leftovers(std::vector{partial, replaced})), ElementsAre(10));
  EXPECT_THAT(steps(leftovers(std::vector{partial, replaced, listed(20)})), ElementsAre(10, 20));
  EXPECT_THAT(steps(leftovers(std::vector{listed(10), listed(20, CheckpointState::damaged)})), IsEmpty());
}

}  // namespace
}  // namespace partita::internal
