// Offload on several ranks: each keeps its own shards in host memory, and every stage trains as without offload.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/engine/zero_reference.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using test::EngineCase;

TEST(Offload, EveryStageGivesTheSameBits) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Communicator> self = test_world().self(), data = test_world().group("data", test_ranks());
  const int ranks = data->size(), rank = data->rank();
  for (int stage = 0; stage <= 3; ++stage)
    for (int micro_batches : {1, 3})
      for (OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::lamb}) {
        EngineCase c{.kind = ModelKind::llama,
                     .stage = stage,
                     .micro_batches = micro_batches,
                     .recompute = Recompute::full,
                     .compute = DType::bf16,
                     .optimizer = optimizer};
        const auto plain = test::make_engine(c, *self, *data);
        const auto expected = test::run_steps(*plain, c, rank, ranks, 0, 5);
        c.poison = true;
        for (unsigned share : {0U, 30U}) {
          const bool whole = share == 0 || micro_batches == 1;
          const double away = whole ? 1 : 0.6, disk = optimizer == OptimizerKind::lamb ? away / 2 : 0;
          c.offload = {.optimizer = away - disk,
                       .disk = disk,
                       .disk_folder = folder.path(),
                       .activations = 4, .copies = [=]() -> std::unique_ptr<Copies> {
                         return std::make_unique<test::LateCopies>(static_cast<unsigned>(rank) + 1, share);
                       }};
          const auto engine = test::make_engine(c, *self, *data);
          const auto found = test::run_steps(*engine, c, rank, ranks, 0, 5);
          const std::string what = "stage " + std::to_string(stage) + ", " + std::to_string(micro_batches);
          test::expect_same_bits(found, expected, *engine, *plain, what);
          const EngineMemory m = engine->memory();
          EXPECT_EQ(m.master + m.optimizer == 0, whole);
          EXPECT_GT(m.host, 0);
        }
      }
}

// Copies made at once; whoever waits for one to the device waits until those of all units of the step have been asked
// for.
class WholeStepCopies final : public Copies {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t units = 0;  // copies a step; 0: nobody waits
    int64_t asked = 0;
    bool late = false;
  };
  explicit WholeStepCopies(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    after.wait();
    host.copy_(device);
    return {};
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    after.wait();
    device.copy_(host);
    const std::lock_guard lock(state_->mutex);
    if (state_->units == 0) return {};
    const int64_t step = state_->asked++ / state_->units;
    state_->changed.notify_all();
    return Event(std::make_shared<Moment>(state_, (step + 1) * state_->units));
  }

 private:
  struct Moment final : EventState {
    Moment(std::shared_ptr<State> the_state, int64_t the_count) : state(std::move(the_state)), count(the_count) {}
    bool test() override {
      const std::lock_guard lock(state->mutex);
      return state->asked >= count;
    }
    void wait() override {
      std::unique_lock lock(state->mutex);
      const auto reached = [this] { return state->late || state->asked >= count; };
      if (!state->changed.wait_for(lock, std::chrono::seconds(10), reached)) state->late = true;
    }
    std::shared_ptr<State> state;
    int64_t count;
  };
  std::shared_ptr<State> state_;
};

// A gather waits for its unit in the thread that issues everything: the host has all updates by then, and goes on.
TEST(Offload, UpdatesGoOnWhileUnitsAreGathered) {
  const std::unique_ptr<Communicator> self = test_world().self(), data = test_world().group("data", test_ranks());
  const int ranks = data->size(), rank = data->rank();
  for (int stage = 0; stage <= 3; ++stage) {
    // Weights are their own master weights: no update waits for the staging memory of an earlier one.
    EngineCase c{.kind = ModelKind::llama, .stage = stage};
    const auto plain = test::make_engine(c, *self, *data);
    const auto expected = test::run_steps(*plain, c, rank, ranks, 0, 3);
    const auto state = std::make_shared<WholeStepCopies::State>();
    c.offload = {.optimizer = 1, .activations = 0, .copies = [=]() -> std::unique_ptr<Copies> {
                   return std::make_unique<WholeStepCopies>(state);
                 }};
    const auto engine = test::make_engine(c, *self, *data);
    (void)engine->owned_boxes();  // the first weights are there
    state->units = static_cast<int64_t>(engine->plan().units.size());
    const auto found = test::run_steps(*engine, c, rank, ranks, 0, 3);
    (void)engine->owned_boxes();
    EXPECT_FALSE(state->late) << "stage " << stage;
    EXPECT_EQ(state->asked, 3 * state->units) << "stage " << stage;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << "stage " << stage;
      EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace partita::internal
