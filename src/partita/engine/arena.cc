#include "partita/engine/arena.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace partita {

GradientLifetimes gradient_lifetimes(const UnitPlan& plan, const Sharding& sharding, int micro_batches) {
  const int blocks = static_cast<int>(plan.blocks.size());
  const int update = update_moment(blocks);
  const bool own = is_own_slice(sharding.ranks, sharding.few_gradients);
  GradientLifetimes lifetimes;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    const bool shares = unit.trainable && micro_batches == 1;
    // From the first writer on; slices from the reduction behind the last.
    lifetimes.full.push_back(
        {.bytes = shares && !sharding.few_gradients ? unit.layout.count * size_of(unit.gradient) : 0,
         .first = backward_moment(plan.last_block[u], blocks),
         .last = update});
    lifetimes.slices.push_back({.bytes = shares && !own ? unit.layout.slice_count() * size_of(unit.gradient_sum) : 0,
                                .first = backward_moment(plan.first_block[u], blocks),
                                .last = update});
  }
  return lifetimes;
}

ArenaPlan plan_arena(std::span<const int64_t> kept_bytes, const GradientLifetimes& gradients) {
  const int blocks = static_cast<int>(kept_bytes.size());
  ArenaPlan plan;
  std::vector<Lifetime>& all = plan.buffers;
  for (int b = 0; b < blocks; ++b)
    all.push_back(
        {.bytes = kept_bytes[static_cast<size_t>(b)], .first = forward_moment(b), .last = backward_moment(b, blocks)});
  all.insert(all.end(), gradients.full.begin(), gradients.full.end());
  all.insert(all.end(), gradients.slices.begin(), gradients.slices.end());
  plan.memory = plan_memory(all);
  return plan;
}

int64_t ArenaPlan::shared_bytes() const {
  int64_t sum = 0;
  for (const Lifetime& buffer : buffers) sum += buffer.bytes;
  return std::max<int64_t>(0, sum - memory.bytes);
}

Arena make_arena(std::span<const int64_t> kept_bytes, const GradientLifetimes& gradients, at::Device device) {
  const ArenaPlan plan = plan_arena(kept_bytes, gradients);
  const std::vector<Lifetime>& all = plan.buffers;
  const at::Tensor memory = at::empty({plan.memory.bytes}, at::TensorOptions(at::kByte).device(device));
  Arena arena;
  size_t next = 0;
  const auto take = [&](std::vector<at::Tensor>& list, size_t count) {
    for (; count > 0; --count, ++next)
      list.push_back(all[next].bytes > 0 ? memory.narrow(0, plan.memory.offset[next], all[next].bytes) : at::Tensor());
  };
  take(arena.kept, kept_bytes.size());
  take(arena.gradients, gradients.full.size());
  take(arena.slices, gradients.slices.size());
  arena.shared_bytes = plan.shared_bytes();
  return arena;
}

}  // namespace partita
