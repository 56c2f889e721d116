// What runs and checkpoints of a module that a pipeline trains refuse: buffers and frozen parameters that are missing,
// have other shapes, or are not one tensor though they have one name.
#include "tests/support/error_message.h"
#include "tests/train/staged_case.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;

int ranks() { return test_world().size(); }
int rank() { return test_world().rank(); }

ModuleTraining training(const fs::path& folder) {
  return {.run = {.directory = folder}, .steps = 2, .global_batch = 12, .log = {.progress = Switch::off}};
}

TEST(PipelineTrainer, RefusesWhatDoesNotFit) {
  const Mesh stages(test_world(), {.pipeline = ranks()});
  const SharedFolder folder;
  const Staged staged(stages, {});
  const Untrained untrained = staged.pipeline->untrained();
  if (ranks() > 1) {
    EXPECT_THAT(error_message([&] { ModuleTrainer(*staged.optimizer, untrained, stages, training(folder / "run")); }),
                HasSubstr(fmt::format("a mesh with {} stages and no pipeline: pass the Pipeline, too", ranks())));
  }
  Pipeline more(staged.parts, stages, {.micro_batches = 4});
  EXPECT_THAT(
      error_message([&] { ModuleTrainer(*staged.optimizer, more, untrained, stages, training(folder / "run")); }),
      HasSubstr("the optimizer has micro_batches 3, expected 4, the passes() of the pipeline"));
  ModuleTraining odd = training(folder / "run");
  odd.global_batch = 13;
  EXPECT_THAT(
      error_message([&] { ModuleTrainer(*staged.optimizer, *staged.pipeline, untrained, stages, odd); }),
      HasSubstr("global_batch is 13, which 1 rank with 3 micro-batches each do not divide: choose a multiple of 3"));
  mesh().world().barrier();
  EXPECT_FALSE(fs::exists(folder / "run")) << "nothing was written";

  quietly([&] {
    ModuleTrainer trainer(*staged.optimizer, *staged.pipeline, untrained, stages, training(folder / "run"));
    EXPECT_THAT(error_message([&] { trainer.run([](const MicroBatch&) { return torch::Tensor(); }); }),
                HasSubstr("a pipeline, and the loss of a whole module: pass run the inputs and a loss of the outputs"));
    EXPECT_EQ(trainer.run(staged.inputs(), staged.loss()).step, 2);
  });
  Convolution module(1);
  ZeroOptimizer optimizer(named(*module), mesh());
  quietly([&] {
    ModuleTraining options = training(folder / "other");
    options.global_batch = ranks();
    ModuleTrainer trainer(optimizer, {}, mesh(), options);
    EXPECT_THAT(error_message([&] { trainer.run(staged.inputs(), staged.loss()); }),
                HasSubstr("inputs and a loss of outputs, and no pipeline: pass the Pipeline to the constructor"));
  });
}

TEST(PipelineTrainer, RefusesALossWithoutAGraph) {
  if (ranks() > 1) GTEST_SKIP() << "an error of one rank ends the program";
  const SharedFolder folder;
  const Staged staged(mesh(), {});
  quietly([&] {
    ModuleTrainer trainer(*staged.optimizer, *staged.pipeline, {}, mesh(), training(folder / "run"));
    EXPECT_THAT(error_message([&] {
                  trainer.run(staged.inputs(), [](const auto&, const MicroBatch&) { return torch::ones({}); });
                }),
                HasSubstr("the loss has no graph"));
  });
}

// All ranks have the same error, whichever of them finds it, and nothing is written.
TEST(ModuleCheckpoint, OneNameIsOneTensorInAllStages) {
  if (ranks() == 1) GTEST_SKIP() << "needs stages";
  const Mesh stages(test_world(), {.pipeline = ranks()});
  const SharedFolder folder;
  const Staged staged(stages, {});
  const auto refused = [&](const Untrained& untrained) {
    const std::string saved =
        error_message([&] { (void)save_module(*staged.optimizer, untrained, stages, folder / "run", {}); });
    for (const std::string& of_rank : gather_strings(stages.world(), saved)) EXPECT_EQ(of_rank, saved);
    return saved;
  };
  const bool last = rank() == ranks() - 1;
  Untrained untrained{.buffers = {{"same", torch::ones({3})}}};
  EXPECT_EQ(refused(untrained), "no error");
  untrained.buffers.push_back({"mask", torch::arange(5) + (last ? 1 : 0)});
  EXPECT_THAT(
      refused(untrained),
      HasSubstr(fmt::format("untrained/mask has other values on rank {} of the pipeline than on its rank 0, and "
                            "a checkpoint has one of each name: give the parts different names",
                            ranks() - 1)));
  untrained.buffers.back() = {"mask", torch::ones({last ? 2 : 3, 5})};
  EXPECT_THAT(
      refused(untrained),
      HasSubstr(fmt::format("buffer mask Float [3, 5], of rank 0 of the pipeline, and buffer mask Float [2, 5], "
                            "of its rank {}, have one name: give the parts different names",
                            ranks() - 1)));
  untrained.buffers.back() = {"mask", torch::ones({3}, last ? torch::kBool : torch::kByte)};
  EXPECT_THAT(refused(untrained),
              HasSubstr("buffer mask Byte [3], of rank 0 of the pipeline, and buffer mask Bool [3]"));
  untrained.buffers.pop_back();
  (last ? untrained.frozen : untrained.buffers).push_back({"mask", torch::ones({3})});
  EXPECT_THAT(refused(untrained),
              HasSubstr("buffer mask Float [3], of rank 0 of the pipeline, and frozen parameter mask"));
  if (last) untrained.frozen.back().tensor = torch::Tensor();
  EXPECT_THAT(refused(untrained), HasSubstr("tensor mask is undefined"));
}

TEST(ModuleCheckpoint, DataParallelRanksHaveTheSameBuffers) {
  if (ranks() == 1) GTEST_SKIP() << "needs ranks";
  const SharedFolder folder;
  const Staged staged(mesh(), {});
  const auto refused = [&](const Untrained& untrained) {
    return error_message([&] { (void)save_module(*staged.optimizer, untrained, mesh(), folder / "run", {}); });
  };
  Untrained untrained{.buffers = {{"first", torch::ones({3})}, {"second", torch::ones({2})}}};
  const int other = ranks() - 1;
  if (rank() == other) untrained.buffers.pop_back();
  EXPECT_THAT(
      refused(untrained),
      HasSubstr(fmt::format("the buffers and frozen parameters of rank {} are not those of rank 0, which has the "
                            "same stage: nothing, expected buffer second Float [2]",
                            other)));
  if (rank() == other) untrained.buffers.push_back({"second", torch::ones({7})});
  EXPECT_THAT(refused(untrained), HasSubstr("buffer second Float [7], expected buffer second Float [2]"));
}

// A checkpoint fits the buffers that it was written of, in any layout; after an error nothing has changed.
TEST(ModuleCheckpoint, MissingTensorsAndOtherShapesAreNamed) {
  const Mesh stages(test_world(), {.pipeline = ranks()});
  const SharedFolder folder;
  const Staged first(stages, {});
  (void)save_module(*first.optimizer, first.pipeline->untrained(), stages, folder / "run", {.step = 1});
  const Staged second(stages, {.seed = 6});
  const std::map<std::string, torch::Tensor> before = second.others();
  const auto refused = [&](const std::function<void(Untrained&)>& change) {
    Untrained untrained = second.pipeline->untrained();
    if (second.pipeline->has_last_stage()) change(untrained);
    return error_message([&] { (void)resume_module(*second.optimizer, untrained, stages, folder / "run"); });
  };
  EXPECT_THAT(refused([](Untrained& u) {
                u.buffers.push_back({"new", torch::ones({2})});
              }),
              AllOf(HasSubstr("is a checkpoint of another model or optimizer"), HasSubstr("missing from it"),
                    HasSubstr("untrained/new")));
  EXPECT_THAT(refused([](Untrained& u) {
                std::erase_if(u.buffers, [](const NamedParameter& p) { return p.name == "parts.7.norm.running_var"; });
              }),
              AllOf(HasSubstr("not in this model"), HasSubstr("untrained/parts.7.norm.running_var")));
  EXPECT_THAT(refused([](Untrained& u) {
                for (NamedParameter& p : u.buffers)
                  if (p.name == "parts.7.norm.running_var") p.tensor = torch::ones({9});
              }),
              HasSubstr("of another shape: untrained/parts.7.norm.running_var [6] instead of [9]"));
  expect_same_others(second.others(), before, 0, "after errors");
  EXPECT_TRUE(resume_module(*second.optimizer, second.pipeline->untrained(), stages, folder / "run").has_value());
  expect_same_others(second.others(), first.others(), 0, "resumed");
  EXPECT_FALSE(second.others().begin()->second.equal(before.begin()->second));
}

TEST(ModuleCheckpoint, DividedParametersOfOtherTypesAreRefused) {
  if (ranks() == 1) GTEST_SKIP() << "needs ranks";
  const Mesh tensor(test_world(), {.tensor = ranks()});
  const SharedFolder folder;
  torch::nn::Linear trained(4, 3), frozen(5, 7);
  frozen->to(torch::kDouble);
  for (torch::Tensor& p : frozen->parameters()) p.requires_grad_(false);
  std::vector<NamedParameter> all = named(*trained);
  all.push_back({"frozen.weight", frozen->weight});
  parallelize({{"frozen.weight", frozen->weight}}, tensor, {{.module = "frozen", .role = TensorRole::column}});
  ZeroOptimizer optimizer(all, tensor);
  EXPECT_THAT(
      error_message([&] {
        (void)save_module(optimizer, {.frozen = {{"frozen.weight", frozen->weight}}}, tensor, folder / "run", {});
      }),
      HasSubstr("frozen.weight is Double and divided over tensor-parallel ranks, expected fp32, bf16, fp16, int32 or "
                "int64"));
}

}  // namespace
}  // namespace partita::internal
