#include "partita/train/start_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

StartKind kind(const StartView& view) { return decide_start(view).kind; }

TEST(StartRule, WithoutCheckpoints) {
  EXPECT_EQ(kind({.resume = "auto"}), StartKind::first_step);
  EXPECT_EQ(kind({.resume = "never"}), StartKind::first_step);
  EXPECT_EQ(kind({.resume = "runs/a", .named = 40}), StartKind::named);
  EXPECT_EQ(kind({.resume = "runs/a", .fork = true, .named = 40}), StartKind::named);
  // A fork that was stopped before its first checkpoint, continued by its own configuration.
  EXPECT_EQ(kind({.resume = "auto", .parent = 40}), StartKind::parent);
}

TEST(StartRule, ANewRunThatBeginsAtItsEndIsRefused) {
  StartView view{.resume = "runs/a/checkpoints/step-40", .run = "runs/b", .steps = 40, .named = 40};
  EXPECT_EQ(decide_start(view).kind, StartKind::refuse);
  EXPECT_EQ(decide_start(view).message,
            "runs/b would begin at step 40 of runs/a/checkpoints/step-40, and train.steps is 40: nothing is left to "
            "train, raise train.steps");
  view.fork = true;
  EXPECT_THAT(decide_start(view).message, HasSubstr("runs/b would begin at step 40 of another run"));
  view.steps = 41;
  EXPECT_EQ(kind(view), StartKind::named);
  EXPECT_EQ(kind({.resume = "auto", .steps = 40, .parent = 40}), StartKind::refuse);
  // Its own end is no error: a job that is started again.
  EXPECT_EQ(kind({.resume = "auto", .steps = 40, .newest = 40}), StartKind::newest);
}

TEST(StartRule, TheSameCommandAgainGoesOn) {
  EXPECT_EQ(kind({.resume = "auto", .newest = 60}), StartKind::newest);
  EXPECT_EQ(kind({.resume = "runs/a", .newest = 60, .named = 40, .named_is_parent = true, .parent = 40}),
            StartKind::newest);
  EXPECT_EQ(kind({.resume = "runs/a", .fork = true, .newest = 60, .named = 40, .named_is_parent = true, .parent = 40}),
            StartKind::newest);
  EXPECT_EQ(kind({.resume = "x", .rewind = true, .newest = 60, .named = 40, .named_is_own = true, .rewound_to = 40}),
            StartKind::newest);
  EXPECT_EQ(kind({.resume = "x", .newest = 60, .named = 60, .named_is_own = true}), StartKind::newest);
}

// A command that named the newest checkpoint, as a scheduler repeats it when the run has come further.
TEST(StartRule, ACommandThatNamedTheNewestContinuesLater) {
  StartView view{.resume = "x", .newest = 60, .named = 60, .named_is_own = true};
  EXPECT_EQ(kind(view), StartKind::newest);
  view.newest = 100;
  EXPECT_EQ(kind(view), StartKind::refuse) << "the run never started from it";
  view.resumed_at = 60;
  EXPECT_EQ(kind(view), StartKind::newest);
  view.named = 40;
  EXPECT_EQ(kind(view), StartKind::refuse) << "an earlier one was not what it named";
  // Going back is another wish, whatever was named before.
  view.named = 60;
  view.rewind = true;
  EXPECT_EQ(kind(view), StartKind::rewind);
}

TEST(StartRule, AForkContinuesOnlyItself) {
  StartView view{.resume = "runs/a",
                 .run = "runs/b",
                 .fork = true,
                 .newest = 60,
                 .parent = 40,
                 .parent_path = "/runs/c/checkpoints/step-00000040"};
  const StartDecision refused = decide_start(view);
  EXPECT_EQ(refused.kind, StartKind::refuse);
  EXPECT_EQ(refused.message,
            "run.fork runs/b holds another run, which began at /runs/c/checkpoints/step-00000040 and is at step 60: "
            "choose a new folder for this fork, or continue that run by its own config.toml, without run.fork");
  view.named = 40;
  view.named_is_parent = true;
  EXPECT_EQ(kind(view), StartKind::newest);
}

TEST(StartRule, GoesBackOnlyWhenAsked) {
  StartView view{.resume = "x", .run = "runs/a", .newest = 60, .named = 40, .named_is_own = true};
  const StartDecision refused = decide_start(view);
  EXPECT_EQ(refused.kind, StartKind::refuse);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("step 40"), HasSubstr("step 60"), HasSubstr("run.rewind=true"),
                                     HasSubstr("--run.fork=")));
  view.rewind = true;
  EXPECT_EQ(kind(view), StartKind::rewind);
  view.rewound_to = 20;
  EXPECT_EQ(kind(view), StartKind::rewind);
}

TEST(StartRule, RefusesWhatItWouldHaveToPassOver) {
  const auto message = [](const StartView& view) {
    const StartDecision decision = decide_start(view);
    EXPECT_EQ(decision.kind, StartKind::refuse);
    return decision.message;
  };
  EXPECT_THAT(message({.resume = "never", .run = "runs/a", .newest = 60}), HasSubstr("run.directory runs/a holds"));
  EXPECT_THAT(message({.resume = "runs/b", .run = "runs/a", .newest = 60, .named = 40}),
              AllOf(HasSubstr("runs/b"), HasSubstr("another run.directory")));
  EXPECT_THAT(
      message({.resume = "runs/a", .run = "runs/b", .fork = true, .newest = 60}),
      HasSubstr("run.fork runs/b holds another run, which is not a fork and is at step 60: choose a new folder"));
  EXPECT_THAT(message({.resume = "auto", .run = "runs/a", .rewind = true, .newest = 60}), HasSubstr("run.rewind=true"));
  EXPECT_THAT(message({.resume = "runs/b", .run = "runs/a", .rewind = true, .newest = 60, .named = 40}),
              HasSubstr("run.rewind=true"));
}

TEST(StartRule, NeverGivesUpAStepWithoutAWord) {
  std::mt19937 random(3);
  const auto coin = [&] { return random() % 2 == 0; };
  const auto step = [&]() -> std::optional<int64_t> {
    if (coin()) return std::nullopt;
    return static_cast<int64_t>(random() % 5);
  };
  for (int i = 0; i < 100'000; ++i) {
    StartView v{.resume = random() % 3 == 0 ? "auto"
                          : coin()          ? "never"
                                            : "runs/a",
                .run = "r",
                .fork = coin(),
                .rewind = coin(),
                .newest = step(),
                .named = {},
                .parent = step(),
                .rewound_to = step(),
                .resumed_at = step()};
    if (v.resume == "runs/a") v.named = static_cast<int64_t>(random() % 5);
    v.named_is_own = v.named && coin();
    v.named_is_parent = v.named && v.parent && !v.named_is_own && coin();
    const StartDecision d = decide_start(v);
    if (v.newest && v.fork) {
      EXPECT_TRUE(d.kind == StartKind::refuse || d.kind == (v.named_is_parent ? StartKind::newest : StartKind::refuse));
    }
    if (v.newest) {
      EXPECT_TRUE(d.kind == StartKind::newest || d.kind == StartKind::refuse ||
                  (d.kind == StartKind::rewind && v.rewind && v.named_is_own && *v.named < *v.newest));
    } else {
      EXPECT_NE(d.kind, StartKind::newest);
      EXPECT_NE(d.kind, StartKind::rewind);
    }
    EXPECT_FALSE(d.kind == StartKind::named && !v.named);
    EXPECT_FALSE(d.kind == StartKind::parent && !v.parent);
    EXPECT_EQ(d.message.empty(), d.kind != StartKind::refuse);
  }
}

TEST(StartRule, ANewerCheckpointInMemoryIsTaken) {
  EXPECT_TRUE(starts_in_memory("auto", 0, 5));
  EXPECT_TRUE(starts_in_memory("auto", 40, 45));
  EXPECT_TRUE(starts_in_memory("runs/b/checkpoints/step-00000040", 40, 45)) << "where this run has begun";
  EXPECT_FALSE(starts_in_memory("auto", 40, 40));
  EXPECT_FALSE(starts_in_memory("auto", 40, 35));
  EXPECT_FALSE(starts_in_memory("never", 0, 5));
}

}  // namespace
}  // namespace partita::internal
