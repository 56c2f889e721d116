// What a run of a user's module refuses, and damaged checkpoints.
#include "partita/base/file.h"
#include "partita/checkpoint/communicator_peers.h"
#include "tests/support/error_message.h"
#include "tests/train/module_case.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;

int ranks() { return test_world().size(); }
int rank() { return test_world().rank(); }

struct Case {
  explicit Case(int stage = 2, int64_t seed = 1)
      : module(seed), optimizer(named(*module), mesh(), {.stage = stage, .unit_elements = 100}) {}
  TrainOutcome run(const ModuleTraining& options, Hooks hooks = {}) {
    TrainOutcome outcome;
    quietly([&] {
      ModuleTrainer trainer(optimizer, untrained(*module), mesh(), options, std::move(hooks));
      began = trainer.start();
      outcome = trainer.run([&](const MicroBatch& batch) { return loss_of(module, batch, mesh()); });
    });
    return outcome;
  }
  Convolution module;
  ZeroOptimizer optimizer;
  RunCounts began;
};

ModuleTraining training(const fs::path& folder) {
  return {.run = {.directory = folder}, .steps = 4, .global_batch = 4 * ranks(), .log = {.progress = Switch::off}};
}

TEST(ModuleTraining, OptionsOutOfRangeAreNamed) {
  const SharedFolder folder;
  Case own;
  const auto refused = [&](const std::function<void(ModuleTraining&)>& change) {
    ModuleTraining options = training(folder / "run");
    change(options);
    return error_message([&] { ModuleTrainer(own.optimizer, untrained(*own.module), mesh(), options); });
  };
  EXPECT_THAT(refused([](auto& o) { o.steps = 0; }), HasSubstr("steps is 0, expected at least 1"));
  EXPECT_THAT(refused([](auto& o) { o.global_batch = 0; }), HasSubstr("global_batch is 0, expected at least 1"));
  EXPECT_THAT(refused([](auto& o) { o.run.directory = ""; }), HasSubstr("run.directory is empty"));
  EXPECT_THAT(refused([](auto& o) { o.log.every = 0; }), HasSubstr("log.every is 0, expected at least 1"));
  EXPECT_THAT(refused([](auto& o) { o.log.profile_steps = 3; }), HasSubstr("profile_steps is for models of Partita"));
  EXPECT_THAT(refused([](auto& o) { o.checkpoint.every = -1; }), HasSubstr("checkpoint.every is -1"));
  EXPECT_THAT(refused([](auto& o) { o.schedule.min = 1; }), HasSubstr("schedule.max is 0 and schedule.min 1"));
  EXPECT_THAT(refused([](auto& o) { o.schedule.warmup = 5; }),
              HasSubstr("schedule.warmup 5 and wsd_decay 0 are together longer than the schedule's 4 steps"));
  EXPECT_THAT(refused([](auto& o) { o.checkpoint.resume = "/nowhere/step-00000004"; }),
              HasSubstr("/nowhere/step-00000004"));
  if (ranks() > 1) {
    EXPECT_THAT(refused([](auto& o) { o.global_batch = ranks() + 1; }),
                HasSubstr(fmt::format("which {} ranks with 1 micro-batch each do not divide: choose a multiple of {}",
                                      ranks(), ranks())));
  }
  mesh().world().barrier();
  EXPECT_FALSE(fs::exists(folder / "run")) << "nothing was written";
}

TEST(ModuleTrainer, RefusesLossesWithoutAGraph) {
  const SharedFolder folder;
  Case own;
  const auto refused = [&](const ModuleTrainer::Loss& loss) {
    return error_message([&] {
      quietly(
          [&] { ModuleTrainer(own.optimizer, untrained(*own.module), mesh(), training(folder / "run")).run(loss); });
    });
  };
  EXPECT_THAT(refused([](const MicroBatch&) { return torch::Tensor(); }), HasSubstr("the loss is undefined"));
  EXPECT_THAT(refused([&](const MicroBatch&) { return own.module->head->bias * 2; }),
              HasSubstr("the loss is a tensor of 5 elements, expected a tensor with one element"));
  EXPECT_THAT(refused([](const MicroBatch&) { return torch::ones({}); }), HasSubstr("the loss has no graph"));
  ModuleTraining options = training(folder / "run");
  options.evaluate_every = 2;
  EXPECT_THAT(error_message([&] { own.run(options); }), HasSubstr("evaluate_every is 2, and run was given no"));
}

// Its states are its own, and would be lost.
TEST(ModuleTrainer, RefusesOptimizersOfTorch) {
  const SharedFolder folder;
  Convolution module(1);
  ZeroOptimizer optimizer(named(*module), mesh(), {.torch_optimizer = [](const auto& groups) {
                            return std::make_shared<torch::optim::RMSprop>(groups[0]);
                          }});
  EXPECT_THAT(
      error_message([&] { ModuleTrainer(optimizer, untrained(*module), mesh(), training(folder / "run")); }),
      HasSubstr("the states of an optimizer of torch are not in checkpoints: use OptimizerOptions::kind instead"));
  EXPECT_THAT(error_message([&] { save_module(optimizer, untrained(*module), mesh(), folder / "run", {}); }),
              HasSubstr("the states of an optimizer of torch are not in checkpoints"));
}

TEST(ModuleTrainer, OneProcessOwnsTheFolder) {
  const SharedFolder folder;
  Case own;
  {
    const ModuleTrainer first(own.optimizer, untrained(*own.module), mesh(), training(folder / "run"));
    const std::string message =
        error_message([&] { ModuleTrainer(own.optimizer, untrained(*own.module), mesh(), training(folder / "run")); });
    EXPECT_THAT(message, AllOf(HasSubstr("run.directory"), HasSubstr("in use"), HasSubstr("another run.directory")));
  }
  EXPECT_EQ(own.run(training(folder / "run")).step, 4);
}

TEST(ModuleTrainer, GoesBackBehindADamagedCheckpoint) {
  const SharedFolder folder;
  ModuleTraining options = training(folder / "run");
  options.checkpoint.every = 2;
  options.checkpoint.keep_last = 0;
  Case whole;
  whole.run(options);
  const StateDict expected = whole.optimizer.state_dict();
  const fs::path checkpoints = folder / "run/checkpoints";
  const auto flip = [&](const char* step) {
    mesh().world().barrier();
    if (rank() == 0) {
      const fs::path file = checkpoints / step / "rank-00000.safetensors";
      std::string content = read_file(file);
      content[content.size() - 100] = static_cast<char>(content[content.size() - 100] ^ 1);
      write_file(file, content);
    }
    mesh().world().barrier();
  };
  flip("step-00000004");
  Case again(2, 7);
  EXPECT_EQ(again.run(options).step, 4);
  EXPECT_EQ(again.began.step, 2);
  EXPECT_TRUE(fs::exists(checkpoints / "step-00000004.damaged"));
  expect_same_state(again.optimizer.state_dict(), expected, 0, "from the checkpoint before");
  expect_same_buffers(again.module, whole.module, "from the checkpoint before");

  // The last good one is not given up: nothing begins again.
  mesh().world().barrier();
  if (rank() == 0) fs::remove_all(checkpoints / "step-00000002");
  flip("step-00000004");
  Case last(2, 8);
  const StateDict before = last.optimizer.state_dict();
  EXPECT_THAT(error_message([&] { ModuleTrainer(last.optimizer, untrained(*last.module), mesh(), options); }),
              AllOf(HasSubstr("step-00000004"), HasSubstr("checksum")));
  expect_same_state(last.optimizer.state_dict(), before, 0, "an error changes nothing");
  EXPECT_TRUE(fs::exists(checkpoints / "step-00000004"));
}

TEST(ModuleTrainer, RefusesOtherModels) {
  const SharedFolder folder;
  Case own;
  own.run(training(folder / "run"));
  torch::nn::Linear other(3, 2);
  ZeroOptimizer optimizer(named(*other), mesh());
  EXPECT_THAT(error_message([&] { ModuleTrainer(optimizer, untrained(*other), mesh(), training(folder / "run")); }),
              AllOf(HasSubstr("is a checkpoint of another model or optimizer"), HasSubstr("model/")));
  // One of `partita train`, as far as its kind is concerned.
  CommunicatorPeers peers(mesh().world());
  CheckpointContents contents;
  contents.scalars = {{"step", 1}, {"model", {{"kind", "gpt2"}}}};
  (void)save_checkpoint(folder / "gpt/checkpoints", 1, contents, peers);
  EXPECT_THAT(
      error_message([&] { ModuleTrainer(own.optimizer, untrained(*own.module), mesh(), training(folder / "gpt")); }),
      HasSubstr("is not a checkpoint of a torch::nn module but of a Partita model"));
}

// A loop of one's own: all that is not trained comes back, in its own type; frozen parameters may be left out.
TEST(ModuleCheckpoint, OwnLoopsSaveAndResume) {
  for (const int stage : {0, 3}) {
    const SharedFolder folder;
    Case first(stage), second(stage, 9);
    EXPECT_FALSE(resume_module(first.optimizer, untrained(*first.module), mesh(), folder / "run"));
    const auto step = [](Case& s, int64_t number) {
      loss_of(s.module, {.step = number, .first_sample = number * 4 * ranks(), .samples = 4}, mesh()).backward();
      s.optimizer.step();
    };
    const bool switched = first.module->switches[0].item<bool>();
    first.module->switches[0] = !switched;
    for (int64_t i = 0; i < 2; ++i) step(first, i);
    {
      const torch::NoGradGuard none;
      first.module->frozen.add_(1);  // what is written into a frozen parameter is stored
    }
    const RunCounts at{.step = 2, .consumed_samples = 8 * ranks(), .skipped_steps = 1, .nan_steps = 1};
    const fs::path saved = save_module(first.optimizer, untrained(*first.module), mesh(), folder / "run", at);
    EXPECT_EQ(saved.filename(), "step-00000002");
    step(second, 5);  // has moments of its own before
    EXPECT_EQ(resume_module(second.optimizer, untrained(*second.module), mesh(), folder / "run"), at);
    expect_same_state(second.optimizer.state_dict(), first.optimizer.state_dict(), 0, fmt::format("stage {}", stage));
    EXPECT_TRUE(second.module->frozen.equal(first.module->frozen));
    EXPECT_EQ(second.module->switches[0].item<bool>(), !switched);
    if (rank() == 0) {
      EXPECT_EQ(second.module->norm->num_batches_tracked.item<int64_t>(), 2);
      expect_same_buffers(second.module, first.module, "of rank 0");
    }
    {
      const torch::NoGradGuard none;
      EXPECT_TRUE(second.module->head->weight.detach().clone().equal(first.module->head->weight.detach().clone()));
    }
    EXPECT_TRUE(verify_checkpoint(saved).empty());
    // Without frozen parameters.
    (void)save_module(first.optimizer, {buffers(*first.module)}, mesh(), folder / "less", at);
    EXPECT_TRUE(resume_module(second.optimizer, {buffers(*second.module)}, mesh(), folder / "less"));
    EXPECT_THAT(
        error_message([&] { resume_module(second.optimizer, untrained(*second.module), mesh(), folder / "less"); }),
        HasSubstr("untrained/frozen"));
    EXPECT_THAT(error_message([&] {
                  Untrained twice = untrained(*first.module);
                  twice.frozen.push_back(twice.frozen.back());
                  save_module(first.optimizer, twice, mesh(), folder / "twice", at);
                }),
                HasSubstr("two tensors that are saved besides the parameters are called frozen"));
  }
}

}  // namespace
}  // namespace partita::internal
