// Whole runs of a module that a pipeline trains: what is reported, that a resumed run is the uninterrupted one, and
// that it goes on in other layouts.
#include <csignal>

#include "partita/monitor/metrics_file.h"
#include "tests/train/staged_case.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;

constexpr int64_t kSteps = 6;
constexpr int64_t kBatch = 12;  // samples of a micro-batch, over all data-parallel ranks

int ranks() { return test_world().size(); }
int rank() { return test_world().rank(); }

ModuleTraining training(const fs::path& folder, int micro_batches = 3) {
  return {.run = {.directory = folder},
          .steps = kSteps,
          .global_batch = kBatch * micro_batches,
          .schedule = {.kind = ScheduleKind::cosine, .max = 1e-2, .min = 1e-3, .warmup = 2},
          .evaluate_every = 4,
          .log = {.progress = Switch::off}};
}

// What the hooks of this rank see.
class Losses final : public Hook {
 public:
  explicit Losses(std::vector<double>& seen) : seen_(seen) {}
  [[nodiscard]] int priority() const override { return 60; }
  void after_step(TrainerView& view) override { seen_.push_back(view.step.loss); }
  void after_eval(TrainerView& view) override { seen_.push_back(view.eval.loss); }

 private:
  std::vector<double>& seen_;
};

struct Trained {
  Trained(const Mesh& mesh, const ModuleTraining& options, const Staged::Options& model, Hooks hooks = {})
      : staged(mesh, model) {
    hooks.add(std::make_unique<Losses>(losses));
    said = quietly([&] {
      ModuleTrainer trainer(*staged.optimizer, *staged.pipeline, staged.pipeline->untrained(), mesh, options,
                            std::move(hooks));
      began = trainer.start();
      outcome = trainer.run(staged.inputs(), staged.loss(), [&] { return evaluate(); });
    });
    state = staged.optimizer->state_dict();
    others = staged.others();
  }
  [[nodiscard]] double evaluate() {
    for (StagedPart& module : staged.modules) module->eval();
    const auto samples = [](int m) { return staged_samples(1000 + 7 * m, 7); };  // the same on all ranks
    const double loss = staged.pipeline->evaluate(
        [&](int m) { return std::vector<torch::Tensor>{samples(m)}; },
        [&](const std::vector<torch::Tensor>& outputs, int m) { return torch::mse_loss(outputs[0], samples(m)); });
    for (StagedPart& module : staged.modules) module->train();
    return loss;
  }
  Staged staged;
  std::vector<double> losses;
  RunCounts began;
  TrainOutcome outcome;
  StateDict state;
  std::map<std::string, torch::Tensor> others;
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

std::vector<MeshLayout::Sizes> layouts() {
  std::vector<MeshLayout::Sizes> all{{.pipeline = ranks()}};
  if (ranks() == 4) all.insert(all.end(), {{.data = 2, .pipeline = 2}, {.tensor = 2, .pipeline = 2}});
  return all;
}

std::string text_of(const MeshLayout::Sizes& s) { return fmt::format("{} x {} x {}", s.data, s.tensor, s.pipeline); }

TEST(PipelineTrainer, AResumedRunIsTheUninterruptedOne) {
  int turn = 0;
  for (const MeshLayout::Sizes& sizes : layouts())
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zbv}) {
      const Mesh mesh(test_world(), sizes);
      const Staged::Options model{.schedule = schedule, .stage = turn++ % 4};
      Staged::Options other = model;
      other.seed = 7;
      const std::string what = fmt::format("{}, {}, stage {}", text_of(sizes), name_of(schedule), model.stage);
      const SharedFolder folder;
      const Trained whole(mesh, training(folder / "whole"), model);
      EXPECT_EQ(whole.outcome.step, kSteps) << what;
      // Only one rank asks for the stop.
      const Trained part(mesh, training(folder / "parts"), model, rank() == ranks() - 1 ? stop_at(3) : Hooks());
      EXPECT_TRUE(part.outcome.interrupted) << what;
      EXPECT_EQ(part.outcome.step, 3) << what;
      const Trained rest(mesh, training(folder / "parts"), other);
      EXPECT_EQ(rest.began, (RunCounts{.step = 3, .consumed_samples = 3 * 3 * kBatch})) << what;
      EXPECT_EQ(rest.outcome.step, kSteps) << what;
      expect_same_state(rest.state, whole.state, 0, what);
      EXPECT_GE(whole.others.size(), size_t{kStagedParts} / static_cast<size_t>(sizes.pipeline) * 5) << what;
      expect_same_others(rest.others, whole.others, 0, what);
      EXPECT_EQ(without_times(folder / "parts/metrics.jsonl"), without_times(folder / "whole/metrics.jsonl")) << what;
      EXPECT_EQ(whole.losses.size(), size_t{kSteps} + 2) << what;
      for (const std::string& of_rank : gather_strings(mesh.world(), fmt::format("{}", fmt::join(whole.losses, " "))))
        EXPECT_EQ(of_rank, fmt::format("{}", fmt::join(whole.losses, " "))) << what;
    }
}

// From one process to stages and tensor-parallel ranks, and back, with running statistics and dropout: the random
// numbers of a part do not depend on the stages.
TEST(PipelineTrainer, GoesOnInOtherLayouts) {
  const Mesh alone = Mesh::alone(test_world());
  std::vector<std::unique_ptr<Mesh>> meshes;
  for (const MeshLayout::Sizes& sizes : layouts())
    if (sizes.data == 1) meshes.push_back(std::make_unique<Mesh>(test_world(), sizes));
  const SharedFolder folder;
  const Trained whole(alone, training(folder / fmt::format("whole{}", rank())), {});  // on every rank
  EXPECT_EQ(whole.others.size(), size_t{kStagedParts} * 5 + 3 * 4 + 2) << "buffers and frozen parameters";
  for (size_t m = 0; m < meshes.size(); ++m) {
    const auto run = [&](const std::string& name, const Mesh& on, const Staged::Options& model, int64_t last) {
      const std::string what = fmt::format("layout {}, {}", m, name);
      const fs::path where = folder / fmt::format("{}{}", name, m);
      if (on.world().size() > 1 || rank() == 0) {
        const Trained part(on, training(where), model, last < kSteps ? stop_at(last) : Hooks());
        EXPECT_EQ(part.outcome.step, last) << what;
        if (last == kSteps) {
          if (rank() == 0) expect_same_state(part.state, whole.state, 1e-5, what);
          expect_same_others(part.others, whole.others, 1e-5, what);
          for (size_t i = 0; i < part.losses.size(); ++i)
            EXPECT_NEAR(part.losses[i], whole.losses[whole.losses.size() - part.losses.size() + i], 1e-5) << what;
        }
      }
      mesh().world().barrier();
    };
    const Staged::Options zero_bubble{.schedule = PipelineSchedule::zbv, .stage = 3, .seed = 8};
    run("to one", *meshes[m], {.stage = 2}, 3);
    run("to one", alone, {.stage = 0, .seed = 9}, kSteps);
    run("to all", alone, {.stage = 1}, 2);
    run("to all", *meshes[m], zero_bubble, kSteps);
  }
}

// Samples are divided among data-parallel ranks: the mean loss, and gradients, without batch norm and dropout.
TEST(PipelineTrainer, DividesSamplesOverDataParallelRanks) {
  if (ranks() != 4) GTEST_SKIP() << "needs four ranks";
  const Mesh alone = Mesh::alone(test_world());
  const Mesh both(test_world(), {.data = 2, .pipeline = 2});
  const SharedFolder folder;
  const Staged::Options model{.stage = 2, .normalizes = false, .dropout = 0};
  const Trained whole(alone, training(folder / fmt::format("whole{}", rank())), model);
  (void)Trained(both, training(folder / "run"), model, stop_at(2));
  Staged::Options other = model;
  other.seed = 4;
  other.stage = 3;
  const Trained rest(both, training(folder / "run"), other);
  if (rank() == 0) expect_same_state(rest.state, whole.state, 1e-5, "2 x 2");
  for (size_t i = 0; i < rest.losses.size(); ++i)
    EXPECT_NEAR(rest.losses[i], whole.losses[whole.losses.size() - rest.losses.size() + i], 1e-6) << i;
  // All data-parallel ranks of a stage have the same running statistics.
  for (const auto& [name, value] : rest.others) {
    const torch::Tensor first = value.clone();
    CpuStream stream;
    both.data().broadcast(first.view({-1}).view(torch::kByte), 0, stream).wait();
    EXPECT_TRUE(first.equal(value)) << name;
  }
}

// A signal to a rank of the last stage stops all, with a checkpoint.
TEST(PipelineTrainer, StopsOnSignals) {
  const Mesh mesh(test_world(), {.pipeline = ranks()});
  const SharedFolder folder;
  const Staged staged(mesh, {});
  ModuleTraining options = training(folder / "run");
  options.evaluate_every = 0;
  quietly([&] {
    ModuleTrainer trainer(*staged.optimizer, *staged.pipeline, staged.pipeline->untrained(), mesh, options);
    const TrainOutcome outcome =
        trainer.run(staged.inputs(), [&](const std::vector<torch::Tensor>& outputs, const MicroBatch& batch) {
          if (batch.step == 1 && batch.number == 1) std::raise(SIGTERM);
          return staged.loss()(outputs, batch);
        });
    EXPECT_TRUE(outcome.interrupted);
    EXPECT_EQ(outcome.step, 2);
  });
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/step-00000002/manifest.json"));
}

}  // namespace
}  // namespace partita::internal
