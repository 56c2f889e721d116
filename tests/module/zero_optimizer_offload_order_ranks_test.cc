// When ZeroOptimizer moves what is in host memory or on disk, and the memory that it takes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/module/offload_case.h"
#include "tests/module/zero_case.h"
#include "tests/support/counted_memory.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;

// Copies that are made when somebody waits for them, in order, and counted.
class CountedCopies final : public Copies {
 public:
  struct Direction {
    struct Copy {
      at::Tensor to, from;
      Event after;
    };
    std::mutex mutex;
    std::vector<Copy> asked;
    size_t made = 0;
  };
  struct Both {
    std::shared_ptr<Direction> down = std::make_shared<Direction>(), up = std::make_shared<Direction>();
  };
  explicit CountedCopies(Both counts) : counts_(std::move(counts)) {}

  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    return add(counts_.down, {std::move(host), std::move(device), after});
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    return add(counts_.up, {std::move(device), std::move(host), after});
  }

 private:
  struct Moment final : EventState {
    Moment(std::shared_ptr<Direction> of, size_t the_count) : direction(std::move(of)), count(the_count) {}
    bool test() override {
      const std::lock_guard lock(direction->mutex);
      return direction->made >= count;
    }
    void wait() override {
      const std::lock_guard lock(direction->mutex);
      for (; direction->made < count; ++direction->made) {
        const Direction::Copy& copy = direction->asked[direction->made];
        copy.after.wait();
        copy.to.copy_(copy.from);
      }
    }
    std::shared_ptr<Direction> direction;
    size_t count;
  };
  static Event add(const std::shared_ptr<Direction>& direction, Direction::Copy copy) {
    const std::lock_guard lock(direction->mutex);
    direction->asked.push_back(std::move(copy));
    return Event(std::make_shared<Moment>(direction, direction->asked.size()));
  }
  Both counts_;
};

// A step returns before the weights of stage 3 are back, and whoever reads one waits for those of its unit. Gradients
// are on their way before the backward pass has ended.
TEST(ZeroOptimizerOffload, WeightsReturnUnitByUnit) {
  constexpr size_t kUnits = 8;
  for (const int stage : {0, 1, 2, 3}) {
    torch::nn::Sequential module;
    for (size_t i = 0; i < kUnits; ++i)
      module->push_back(torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(false)));
    const CountedCopies::Both counts;
    ZeroOptimizer optimizer(
        named(*module), mesh(),
        {.stage = stage, .unit_elements = 256, .offload = {.optimizer = 1, .copies = [&] {
                                                             return std::make_unique<CountedCopies>(counts);
                                                           }}});
    for (int step = 0; step < 3; ++step) {
      module->forward(torch::ones({2, 16})).sum().backward();
      EXPECT_EQ(counts.down->asked.size(), kUnits * static_cast<size_t>(step + 1)) << "before the step";
      optimizer.step();
      const size_t before = kUnits * static_cast<size_t>(step + 1);  // with those of the construction
      if (stage < 3) {
        EXPECT_EQ(counts.up->made, before + kUnits) << stage;
        continue;
      }
      EXPECT_EQ(counts.up->made, before) << "the step has not waited";
      for (size_t unit = 0; unit < kUnits && step == 0; ++unit) {
        (void)module[unit]->as<torch::nn::Linear>()->weight.sum();
        EXPECT_EQ(counts.up->made, before + std::min(unit + 2, kUnits)) << "one is gathered ahead of unit " << unit;
      }
    }
  }
}

// Slices are given back when nobody reads them any more: after passes that are dropped, and after a skipped step.
TEST(ZeroOptimizerOffload, WaitsForGradientsThatNobodyNeeds) {
  for (const int stage : {0, 1, 2, 3})
    for (const int passes : {1, 2}) {
      torch::nn::Linear module(16, 16);
      const CountedCopies::Both counts;
      ZeroOptimizer optimizer(
          named(*module), mesh(),
          {.stage = stage,
           .micro_batches = passes,
           .unit_elements = 100,
           .offload = {.optimizer = 1, .copies = [&] { return std::make_unique<CountedCopies>(counts); }},
           .poison = true});
      const auto pass = [&](double factor) { (module->forward(torch::ones({2, 16})).sum() * factor).backward(); };
      for (int p = 0; p < passes; ++p) pass(1);
      optimizer.zero_grad();
      EXPECT_EQ(counts.down->made, counts.down->asked.size()) << "dropped, stage " << stage;
      for (int p = 0; p < passes; ++p) pass(NAN);
      EXPECT_TRUE(optimizer.step().skipped);
      EXPECT_GT(counts.down->made, 0U) << stage;
      EXPECT_EQ(counts.down->made, counts.down->asked.size()) << "skipped, stage " << stage;
    }
}

// Copies to the device that take their time, in the thread that updates.
class SlowCopies final : public Copies {
 public:
  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    after.wait();
    host.copy_(device);
    return {};
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    after.wait();
    device.copy_(host);
    return {};
  }
};

// With stage 3 nothing that is read may tell that the last update of what is not used still runs.
TEST(ZeroOptimizerOffload, AnUpdateEndsBeforeTheNextBegins) {
  std::vector<std::vector<NamedParameter>> weights;
  for (const bool offloads : {false, true}) {
    torch::manual_seed(1);
    torch::nn::Sequential module;
    for (int i = 0; i < 5; ++i) module->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
    Offload offload;
    if (offloads) offload = {.optimizer = 1, .copies = [] { return std::make_unique<SlowCopies>(); }};
    ZeroOptimizer optimizer(named(*module), mesh(),
                            {.stage = 3, .optimizer = {.weight_decay = 0.5}, .unit_elements = 64, .offload = offload});
    for (int step = 0; step < 3; ++step) {
      optimizer.set_learning_rate(0.1 / (step + 1));
      module[0]->as<torch::nn::Linear>()->forward(torch::ones({2, 8})).square().sum().backward();
      optimizer.step();
    }
    weights.push_back(optimizer.weights());
  }
  for (size_t i = 0; i < weights[0].size(); ++i)
    EXPECT_TRUE(weights[1][i].tensor.equal(weights[0][i].tensor)) << weights[0][i].name;
}

// Slices that passes add to are gone after a step, a skipped one, and dropped passes.
TEST(ZeroOptimizerOffload, GivesSlicesBack) {
  constexpr int64_t kMatrix = 4 * 64 * 64;
  torch::nn::Sequential module;
  for (int i = 0; i < 16; ++i) module->push_back(torch::nn::Linear(torch::nn::LinearOptions(64, 64).bias(false)));
  ZeroOptimizer optimizer(named(*module), mesh(),
                          {.stage = 2, .micro_batches = 2, .unit_elements = 64, .offload = {.optimizer = 1}});
  const auto passes = [&](double factor) {
    for (int p = 0; p < 2; ++p) (module->forward(torch::ones({1, 64})).sum() * factor).backward();
  };
  const CountedMemory counted;
  passes(1);
  EXPECT_GE(counted.now(), 16 * kMatrix / test_world().size());
  optimizer.step();
  EXPECT_LT(counted.now(), kMatrix) << "after a step";
  passes(NAN);
  optimizer.step();
  EXPECT_LT(counted.now(), kMatrix) << "after a skipped step";
  passes(1);
  optimizer.zero_grad();
  EXPECT_LT(counted.now(), kMatrix) << "after passes that were dropped";
}

// For units of 64 x 192, of which half are in host memory, or all on disk.
TEST(ZeroOptimizerOffload, MemoryIsTheHosts) {
  const TemporaryDirectory folder;
  const int64_t ranks = test_world().size(), unit = 64 * 192, units = 8;
  for (const int stage : {0, 1, 2, 3})
    for (const bool disk : {false, true}) {
      torch::nn::Sequential module;
      for (int64_t i = 0; i < units; ++i)
        module->push_back(
            torch::nn::Linear(torch::nn::LinearOptions(i % 2 == 0 ? 64 : 192, i % 2 == 0 ? 192 : 64).bias(false)));
      ZeroOptimizer optimizer(
          named(*module), mesh(),
          {.stage = stage,
           .unit_elements = unit,
           .offload = disk ? Offload{.disk = 1, .disk_folder = folder.path()} : Offload{.optimizer = 0.5}});
      const int64_t divided = stage == 0 ? 1 : ranks, slice = unit / divided, away = disk ? units : units / 2;
      for (int step = 0; step < 2; ++step) {
        const ZeroOptimizer::Memory m = optimizer.memory();
        EXPECT_EQ(m.master, 0);
        EXPECT_EQ(m.optimizer, 8 * slice * (units - away)) << stage;
        EXPECT_EQ(m.disk, disk ? 12 * slice * units : 0) << stage;
        // Gradients, and master weights and states, on disk of three units at a time.
        EXPECT_EQ(m.host, 4 * slice * away + 12 * slice * (disk ? 3 : away)) << stage;
        // Full gradients of what is away, and with stages 2 and 3 of all, are in two buffers in turn; slices that leave
        // at once in two others.
        const int64_t full = stage >= 2 ? 2 : units - away + 2;
        const bool in_place = stage < 2 && divided == 1;
        EXPECT_EQ(m.gradients, 4 * unit * full + (in_place ? 0 : 4 * slice * (units - away + 2))) << stage;
        module->forward(torch::ones({2, 64})).sum().backward();
        optimizer.step();
      }
    }
}

}  // namespace
}  // namespace partita::internal
