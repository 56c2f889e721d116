#include "partita/shard/weights_off_device.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "partita/device/scalar_type.h"
#include "partita/shard/states_place.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

// Happens when it is waited for.
struct Moment final : EventState {
  bool test() override { return happened; }
  void wait() override { happened = true; }
  bool happened = false;
};

// Copies at once; each ends when it is waited for.
class RecordedCopies final : public Copies {
 public:
  Event down(at::Tensor, at::Tensor, const Event&) override {
    ADD_FAILURE() << "weights do not come back";
    return {};
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    after_.push_back(after.state());
    device.copy_(host);
    ends_.push_back(std::make_shared<Moment>());
    return Event(ends_.back());
  }
  std::vector<std::shared_ptr<EventState>> after_;
  std::vector<std::shared_ptr<Moment>> ends_;
};

// Seven layers of odd sizes, with all weights there.
UnitPlan plan_with(const StatesShares& shares) {
  std::vector<BlockParameters> blocks;
  for (int l = 0; l < 7; ++l)
    blocks.push_back({BlockKind::layer, {{.name = fmt::format("w{}", l), .shape = {700 + l, 13}}}});
  UnitPlan plan = plan_units(blocks, {.weight = DType::bf16, .layers_per_unit = 1});
  place_states(plan, {.host = 1}, /*one_reduction=*/true);
  place_weights(plan, shares);
  return plan;
}

at::Tensor device_memory(const UnitPlan& plan, int unit) {
  const Unit& u = plan.units[static_cast<size_t>(unit)];
  return at::zeros({u.layout.slice_count()}, at::TensorOptions(scalar_type(u.weight)));
}

TEST(WeightsOffDevice, AreCopiedOnceTheMemoryIsFree) {
  const TemporaryDirectory folder;
  for (const StatesShares& shares : {StatesShares{.host = 1}, {.disk = 1}, {.host = 0.4, .disk = 0.6}}) {
    const UnitPlan plan = plan_with(shares);
    RecordedCopies copies;
    WeightsOffDevice weights(plan, folder.path(), at::kCPU, copies);
    EXPECT_EQ(weights.host_bytes(), weights_host_bytes(plan));
    EXPECT_EQ(weights.disk_bytes(), plan_weights_file(plan).bytes);
    for (int u = 0; u < 7; ++u) weights.slice(u).fill_(u + 1);
    for (int round = 0; round < 2; ++round)
      for (int u = 0; u < 7; ++u) {
        if (u < 6) weights.read_ahead(u + 1);
        const at::Tensor memory = device_memory(plan, u);
        const auto free = std::make_shared<Moment>();
        (void)weights.fetch(u, memory, Event(free));
        EXPECT_EQ(copies.after_.back(), free) << "unit " << u;
        EXPECT_TRUE(memory.eq(u + 1).all().item<bool>()) << "unit " << u;
      }
  }
}

// A buffer is read into again when the copy out of it has ended, and what was written since is read.
TEST(WeightsOffDevice, OnDiskTakeTurns) {
  const TemporaryDirectory folder;
  const UnitPlan plan = plan_with({.disk = 1});
  RecordedCopies copies;
  WeightsOffDevice weights(plan, folder.path(), at::kCPU, copies);
  const at::Tensor memory = device_memory(plan, 0), other = device_memory(plan, 2);
  weights.slice(0).fill_(1), weights.slice(2).fill_(3);
  (void)weights.fetch(0, memory, {});
  EXPECT_FALSE(copies.ends_[0]->happened);
  weights.read_ahead(1);
  EXPECT_FALSE(copies.ends_[0]->happened) << "the other buffer";
  weights.read_ahead(2);
  EXPECT_TRUE(copies.ends_[0]->happened) << "the same buffer";
  weights.slice(2).fill_(5);
  weights.forget(2);
  (void)weights.fetch(2, other, {});
  EXPECT_TRUE(other.eq(5).all().item<bool>());
}

}  // namespace
}  // namespace partita::internal
