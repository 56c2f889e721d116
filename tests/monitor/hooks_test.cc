#include "partita/monitor/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace partita::internal {
namespace {
using ::testing::ElementsAre;

// Writes its name and the event into a common record.
class Recorder : public Hook {
 public:
  Recorder(std::string name, int priority, std::vector<std::string>& record)
      : name_(std::move(name)), priority_(priority), record_(record) {}

  [[nodiscard]] int priority() const override { return priority_; }
  void before_run(TrainerView&) override { record_.push_back(name_ + " before_run"); }
  void after_step(TrainerView& view) override { record_.push_back(name_ + " step " + std::to_string(view.step.step)); }
  void after_eval(TrainerView&) override { record_.push_back(name_ + " eval"); }
  void after_save(TrainerView& view) override { record_.push_back(name_ + " save " + view.save.folder.string()); }
  void after_run(TrainerView&) override { record_.push_back(name_ + " after_run"); }

 private:
  std::string name_;
  int priority_;
  std::vector<std::string>& record_;
};

class Stopper : public Hook {
 public:
  [[nodiscard]] int priority() const override { return 0; }
  void after_step(TrainerView& view) override {
    if (view.step.loss > 100) view.stop_reason = "loss exploded";
  }
};

struct HooksTest : public ::testing::Test {
  Config config;
  RunInfo info;
  TrainerView view{.config = config, .info = info};
  std::vector<std::string> record;
  Hooks hooks;
  void add(const std::string& name, int priority) { hooks.add(std::make_unique<Recorder>(name, priority, record)); }
};

TEST_F(HooksTest, LowerPriorityRunsFirstAndEqualOnesInTheirOrder) {
  add("late", 90);
  add("b", 50);
  add("early", -1);
  add("c", 50);
  hooks.before_run(view);
  EXPECT_THAT(record, ElementsAre("early before_run", "b before_run", "c before_run", "late before_run"));
}

TEST_F(HooksTest, EachEventReachesItsFunction) {
  add("a", 1);
  hooks.before_run(view);
  view.step.step = 3;
  hooks.after_step(view);
  hooks.after_eval(view);
  view.save.folder = "run/step-3";
  hooks.after_save(view);
  hooks.after_run(view);
  EXPECT_THAT(record, ElementsAre("a before_run", "a step 3", "a eval", "a save run/step-3", "a after_run"));
}

TEST_F(HooksTest, AHookMayEndTheRun) {
  hooks.add(std::make_unique<Stopper>());
  view.step.loss = 5;
  hooks.after_step(view);
  EXPECT_EQ(view.stop_reason, "");
  view.step.loss = 500;
  hooks.after_step(view);
  EXPECT_EQ(view.stop_reason, "loss exploded");
}

TEST_F(HooksTest, NoHooksAreFine) {
  EXPECT_EQ(hooks.size(), 0U);
  hooks.after_step(view);
}

}  // namespace
}  // namespace partita::internal
