// Runs of a user's module: what is reported, and that a resumed run is the uninterrupted one.
#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "partita/base/file.h"
#include "partita/checkpoint/folders.h"
#include "partita/comm/memory_folder.h"
#include "partita/monitor/metrics_file.h"
#include "tests/support/error_message.h"
#include "tests/train/module_case.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSteps = 7;

int ranks() { return test_world().size(); }
int rank() { return test_world().rank(); }

ModuleTraining training(const fs::path& folder, int64_t samples_of_a_rank = 6) {
  return {.run = {.directory = folder},
          .steps = kSteps,
          .global_batch = samples_of_a_rank * ranks(),
          .schedule = {.kind = ScheduleKind::cosine, .max = 1e-2, .min = 1e-3, .warmup = 2},
          .log = {.every = 3, .progress = Switch::off}};
}

ZeroOptimizerOptions zero(int stage) { return {.stage = stage, .micro_batches = 2, .unit_elements = 100}; }

struct Trained {
  explicit Trained(const ModuleTraining& options, int stage, int64_t seed = 1, Hooks hooks = {},
                   const Mesh& on = mesh(), bool normalizes = true, double dropout = 0.2)
      : module(seed, normalizes, dropout), optimizer(named(*module), on, zero(stage)) {
    said = quietly([&] {
      ModuleTrainer trainer(optimizer, untrained(*module), on, options, std::move(hooks));
      began = trainer.start();
      outcome = trainer.run([&](const MicroBatch& batch) { return loss_of(module, batch, on); });
    });
    state = optimizer.state_dict();
  }
  Convolution module;
  ZeroOptimizer optimizer;
  RunCounts began;
  TrainOutcome outcome;
  StateDict state;
  std::string said;
};

std::string without_times(const fs::path& metrics) {
  std::string text;
  for (StepMetrics m : read_steps(metrics)) {
    m.seconds = 0;
    text += to_json(m) + "\n";
  }
  return text;
}

TEST(ModuleTrainer, AResumedRunIsTheUninterruptedOne) {
  for (const int stage : {0, 1, 2, 3}) {
    const SharedFolder folder;
    const std::string what = fmt::format("stage {}", stage);
    const Trained whole(training(folder / "whole"), stage);
    EXPECT_EQ(whole.outcome.step, kSteps);
    EXPECT_FALSE(whole.outcome.interrupted);

    // Only one rank asks for the stop.
    const Trained part(training(folder / "parts"), stage, 1, rank() == ranks() - 1 ? stop_at(3) : Hooks());
    EXPECT_TRUE(part.outcome.interrupted);
    EXPECT_EQ(part.outcome.step, 3);
    EXPECT_TRUE(fs::exists(folder / "parts/checkpoints/step-00000003/manifest.json"));
    const Trained rest(training(folder / "parts"), stage, /*seed=*/5);
    EXPECT_EQ(rest.began, (RunCounts{.step = 3, .consumed_samples = 3 * 6 * ranks()}));
    EXPECT_EQ(rest.outcome.step, kSteps);
    EXPECT_FALSE(rest.outcome.interrupted);

    expect_same_state(rest.state, whole.state, 0, what);
    expect_same_buffers(rest.module, whole.module, what);
    EXPECT_TRUE(rest.module->frozen.equal(whole.module->frozen)) << what;
    EXPECT_EQ(without_times(folder / "parts/metrics.jsonl"), without_times(folder / "whole/metrics.jsonl")) << what;
  }
}

TEST(ModuleTrainer, ResumesFromMemory) {
  const SharedFolder folder;
  const Trained whole(training(folder / "whole"), 2);
  fs::create_directories(folder / "memory");
  setenv(kMemoryFolder, (folder / "memory").c_str(), 1);
  ModuleTraining options = training(folder / "parts");
  options.checkpoint = {.every = 0, .on_interrupt = false, .memory_every = 2};
  const Trained part(options, 2, 1, stop_at(5));
  EXPECT_EQ(part.outcome.step, 5);
  EXPECT_TRUE(list_steps(folder / "parts/checkpoints").empty());
  EXPECT_EQ(steps_reached(folder / "memory"), 5);
  const Trained rest(options, 2, /*seed=*/5);
  unsetenv(kMemoryFolder);
  EXPECT_EQ(rest.began, (RunCounts{.step = 4, .consumed_samples = 4 * 6 * ranks()}));
  expect_same_state(rest.state, whole.state, 0, "from memory");
  EXPECT_EQ(without_times(folder / "parts/metrics.jsonl"), without_times(folder / "whole/metrics.jsonl"));
}

// N ranks and one, at two stages. Without batch norm and dropout, which see the samples of a rank.
TEST(ModuleTrainer, GoesOnOnOtherRanksAtAnotherStage) {
  const Mesh alone = Mesh::alone(test_world());
  for (const int stage : {0, 1, 2, 3}) {
    const SharedFolder folder;
    const auto run = [&](const std::string& name, bool all, int at, int64_t last) {
      ModuleTraining options = training(folder / name);
      StateDict state;
      if (all || rank() == 0)
        state = Trained(options, at, 1, last < kSteps ? stop_at(last) : Hooks(), all ? mesh() : alone, false, 0).state;
      mesh().world().barrier();
      return state;
    };
    const StateDict whole = run("whole", true, stage, kSteps);
    (void)run("to one", true, stage, 3);
    const StateDict to_one = run("to one", false, 3 - stage, kSteps);
    (void)run("to all", false, stage, 3);
    const StateDict to_all = run("to all", true, 3 - stage, kSteps);
    if (rank() > 0) continue;
    expect_same_state(to_one, whole, 1e-6, fmt::format("to one, stage {}", stage));
    expect_same_state(to_all, whole, 1e-6, fmt::format("to all, stage {}", stage));
    EXPECT_EQ(read_steps(folder / "to all/metrics.jsonl").size(), size_t{kSteps});
  }
}

TEST(ModuleTrainer, ReportsTheMeanLossAndTheSchedule) {
  const SharedFolder folder;
  ModuleTraining options = training(folder / "run");
  options.evaluate_every = 3;
  Convolution module(1), same(1);
  ZeroOptimizer optimizer(named(*module), mesh(), zero(2));
  std::vector<std::string> first;  // losses of the first step on this rank
  const std::string said = quietly([&] {
    ModuleTrainer trainer(optimizer, untrained(*module), mesh(), options);
    trainer.run(
        [&](const MicroBatch& batch) {
          const torch::Tensor loss = loss_of(module, batch, mesh());
          EXPECT_EQ(batch.samples, 3);
          EXPECT_EQ(batch.first_sample, batch.step * 6 * ranks() + batch.number * 3 * ranks());
          if (batch.step == 0) first.push_back(fmt::format("{}", loss.item<double>()));
          return loss;
        },
        [&] {
          EXPECT_FALSE(torch::GradMode::is_enabled());
          return rank() + 1.0;
        });
  });
  double mean = 0;
  for (const std::string& of_rank : gather_strings(mesh().world(), first.at(0) + " " + first.at(1)))
    mean += (std::stod(of_rank) + std::stod(of_rank.substr(of_rank.find(' ')))) / 2 / ranks();
  if (rank() > 0) return;
  const std::vector<StepMetrics> steps = read_steps(folder / "run/metrics.jsonl");
  ASSERT_EQ(steps.size(), size_t{kSteps});
  EXPECT_NEAR(steps[0].loss, mean, 1e-12);
  for (int64_t i = 0; i < kSteps; ++i) {
    const StepMetrics& m = steps[static_cast<size_t>(i)];
    EXPECT_EQ(m.step, i + 1);
    EXPECT_EQ(m.consumed_samples, (i + 1) * 6 * ranks());
    EXPECT_NEAR(m.learning_rate, learning_rate({.max = 1e-2, .min = 1e-3, .warmup = 2, .length = kSteps}, i + 1),
                1e-15);
    EXPECT_GT(m.grad_norm, 0);
    EXPECT_EQ(m.tokens, 0);
  }
  const std::vector<EvalMetrics> evals = read_evals(folder / "run/validation.jsonl");
  ASSERT_EQ(evals.size(), 3U);
  EXPECT_EQ(evals[1].step, 6);
  EXPECT_EQ(evals[2].step, kSteps);
  EXPECT_DOUBLE_EQ(evals[2].loss, (1 + ranks()) / 2.0);
  EXPECT_THAT(said, AllOf(HasSubstr("iteration        3/       7 |"), HasSubstr("| samples per second: "),
                          HasSubstr(" | loss: "), HasSubstr("validation loss at iteration 6 | loss value: ")));
  EXPECT_TRUE(fs::exists(folder / "run/versions.json"));
  std::string events;
  for (const auto& entry : fs::directory_iterator(folder / "run"))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) events += read_file(entry.path());
  EXPECT_THAT(events, AllOf(HasSubstr("loss/train"), HasSubstr("loss/validation"), HasSubstr("steps = 7\n"),
                            HasSubstr("schedule = cosine, from 0.01 to 0.001, warmup 2, length 7\n")));
  EXPECT_THAT(events, Not(HasSubstr("perplexity")));
}

// Groups keep the ratio of their rates; a step that is skipped does not advance the schedule.
TEST(ModuleTrainer, SkipsStepsThatAreNotFinite) {
  const SharedFolder folder;
  Convolution module(1);
  ParameterGroup first, second{.learning_rate = 2e-3};
  for (const NamedParameter& p : named(*module)) (p.name.starts_with("head") ? second : first).parameters.push_back(p);
  ZeroOptimizer optimizer({first, second}, mesh(), zero(1));
  int64_t bad = 2;
  const auto loss = [&](const MicroBatch& batch) {
    const torch::Tensor l = loss_of(module, batch, mesh());
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(1), 2 * optimizer.learning_rate(0));
    return batch.step >= 1 && batch.step <= bad && rank() == ranks() - 1 && batch.number == 1 ? l * NAN : l;
  };
  quietly([&] {
    ModuleTrainer trainer(optimizer, untrained(*module), mesh(), training(folder / "run"));
    trainer.run(loss);
    EXPECT_THAT(error_message([&] { trainer.run(loss); }), HasSubstr("run was called twice"));
  });
  if (rank() == 0) {
    const std::vector<StepMetrics> steps = read_steps(folder / "run/metrics.jsonl");
    ASSERT_EQ(steps.size(), size_t{kSteps});
    EXPECT_EQ(steps[0].skipped_steps, 0);
    EXPECT_EQ(steps[2].skipped_steps, 2);
    EXPECT_EQ(steps.back().skipped_steps, 2);
    EXPECT_EQ(steps.back().nan_steps, 2);
    EXPECT_EQ(steps[3].learning_rate, steps[1].learning_rate) << "the second update";
    EXPECT_EQ(optimizer.state_dict().at("zero_optimizer/updates").item<int64_t>(), kSteps - 2);
  } else {
    (void)optimizer.state_dict();
  }
  bad = 100;
  ModuleTraining longer = training(folder / "run");
  longer.steps = 30;
  quietly([&] {
    ModuleTrainer trainer(optimizer, untrained(*module), mesh(), longer);
    EXPECT_EQ(trainer.start().skipped_steps, 2);
    EXPECT_THAT(error_message([&] { trainer.run(loss); }),
                HasSubstr("the gradient was not finite in 10 steps in a row, up to step 17: lower the learning rate"));
  });
}

// A signal to one rank stops all of them, with a checkpoint.
TEST(ModuleTrainer, StopsOnSignals) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    const SharedFolder folder;
    Convolution module(1);
    ZeroOptimizer optimizer(named(*module), mesh(), zero(3));
    quietly([&] {
      ModuleTrainer trainer(optimizer, untrained(*module), mesh(), training(folder / "run"));
      const TrainOutcome outcome = trainer.run([&](const MicroBatch& batch) {
        if (batch.step == 1 && batch.number == 1 && rank() == ranks() - 1) std::raise(signal);
        return loss_of(module, batch, mesh());
      });
      EXPECT_TRUE(outcome.interrupted);
      EXPECT_EQ(outcome.step, 2);
    });
    EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000002/manifest.json"));
  }
}

TEST(ModuleTrainer, KeepsAsManyCheckpointsAsItIsTold) {
  const SharedFolder folder;
  ModuleTraining options = training(folder / "run");
  options.checkpoint.every = 1;
  options.checkpoint.keep_last = 2;
  options.checkpoint.keep_every = 3;
  const Trained run(options, 2);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000003", "step-00000006", "step-00000007"}));
  const Trained again(options, 2);  // has nothing to do
  EXPECT_EQ(again.outcome.step, kSteps);
  EXPECT_EQ(again.began.step, kSteps);
  expect_same_state(again.state, run.state, 0, "again");
}

}  // namespace
}  // namespace partita::internal
