// Whole runs of modules whose states are in host memory or on disk: the same run, which goes on wherever they are.
#include "partita/train/module_offload_file.h"

#include "partita/base/file.h"
#include "tests/train/staged_case.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;

int ranks() { return test_world().size(); }

struct Trained {
  StateDict state;
  std::map<std::string, torch::Tensor> others;
};

// `last` < 4: stopped after this step.
Trained train(const Mesh& on, const fs::path& folder, const Staged::Options& model, int64_t last = 4) {
  const Staged staged(on, model);
  Trained result;
  quietly([&] {
    ModuleTrainer trainer(*staged.optimizer, *staged.pipeline, staged.pipeline->untrained(), on,
                          {.run = {.directory = folder},
                           .steps = 4,
                           .global_batch = 36,
                           .schedule = {.kind = ScheduleKind::cosine, .max = 1e-2, .min = 1e-3},
                           .log = {.progress = Switch::off}},
                          last < 4 ? stop_at(last) : Hooks());
    EXPECT_EQ(trainer.run(staged.inputs(), staged.loss()).step, last);
  });
  result.state = staged.optimizer->state_dict();
  result.others = staged.others();
  return result;
}

TEST(ModuleOffload, RunsGoOnWhereverStatesAre) {
  const SharedFolder folder;
  write_file(folder / fmt::format("{}.toml", test_world().rank()),
             fmt::format("[memory]\noptimizer = \"host:0.5,disk:0.4\"\ndisk_folder = \"{}\"\n",
                         (folder / "scratch").string()));
  const Offload both = read_offload(folder / fmt::format("{}.toml", test_world().rank())), host{.optimizer = 1},
                disk{.disk = 1, .disk_folder = folder / "scratch"};
  std::vector<MeshLayout::Sizes> layouts{{.pipeline = ranks()}, {.data = ranks()}, {.tensor = ranks()}};
  if (ranks() == 4) layouts.push_back({.data = 2, .pipeline = 2});
  int turn = 0;
  for (const MeshLayout::Sizes& sizes : layouts) {
    const Mesh on(test_world(), sizes);
    for (const PipelineSchedule schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zbv}) {
      const int number = turn++;
      Staged::Options model{.schedule = schedule, .stage = number % 4};
      const std::string what = fmt::format("{} x {} x {}, {}, stage {}", sizes.data, sizes.tensor, sizes.pipeline,
                                           name_of(schedule), model.stage);
      const auto run = [&](const char* name) { return folder / fmt::format("{}{}", name, number); };
      const Trained whole = train(on, run("whole"), model);
      model.offload = both;
      const Trained offloaded = train(on, run("offloaded"), model);
      expect_same_state(offloaded.state, whole.state, 0, what);
      // With other seeds, since all comes from the checkpoints.
      (void)train(on, run("parts"), model, 1);
      model.seed = 7, model.offload = number % 2 == 0 ? host : disk;
      (void)train(on, run("parts"), model, 2);
      model.seed = 8, model.offload = {};
      (void)train(on, run("parts"), model, 3);
      model.seed = 9, model.offload = number % 2 == 0 ? disk : host;
      const Trained rest = train(on, run("parts"), model);
      expect_same_state(rest.state, whole.state, 0, what);
      expect_same_others(rest.others, whole.others, 0, what);
    }
  }
}

}  // namespace
}  // namespace partita::internal
