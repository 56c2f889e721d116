#include "partita/engine/arena.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace partita::internal {

std::vector<Lifetime> kept_lifetimes(const Moments& moments, int slots, std::span<const int64_t> kept_bytes) {
  std::vector<Lifetime> kept;
  for (int slot = 0; slot < slots; ++slot)
    for (int b = 0; b < static_cast<int>(kept_bytes.size()); ++b)
      kept.push_back({.bytes = moments.first_forward(slot, b) < 0 ? 0 : kept_bytes[static_cast<size_t>(b)],
                      .first = moments.first_forward(slot, b),
                      .last = moments.last_use(slot, b)});
  return kept;
}

GradientLifetimes gradient_lifetimes(const UnitPlan& plan, const GradientPlan& gradients, const Moments& moments,
                                     int micro_batches) {
  GradientLifetimes lifetimes;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    const bool alone = unit.trainable && micro_batches == 1 && !unit.on_host();
    const bool full = alone && !gradients.shared;
    const bool slice = alone && gradients.slice[u] == SliceMemory::own;
    // Live from the first writer on; slices, from the reduction after the last writer.
    lifetimes.full.push_back({.bytes = full ? unit.layout.count * size_of(unit.gradient) : 0,
                              .first = moments.first_backward(plan.last_block[u]),
                              .last = moments.update()});
    lifetimes.slices.push_back({.bytes = slice ? gradients.slice_count[u] * size_of(gradients.slice_dtype[u]) : 0,
                                .first = moments.first_backward(plan.first_block[u]),
                                .last = moments.update()});
  }
  return lifetimes;
}

ArenaPlan plan_arena(std::span<const Lifetime> kept, const GradientLifetimes& gradients) {
  ArenaPlan plan;
  std::vector<Lifetime>& all = plan.buffers;
  all.assign(kept.begin(), kept.end());
  all.insert(all.end(), gradients.full.begin(), gradients.full.end());
  all.insert(all.end(), gradients.slices.begin(), gradients.slices.end());
  plan.kept = kept.size();
  plan.units = gradients.full.size();
  plan.memory = plan_memory(all);
  return plan;
}

std::vector<std::vector<int>> ArenaPlan::gradients_under() const {
  const auto overlap = [this](size_t a, size_t b) {
    return buffers[a].bytes > 0 && buffers[b].bytes > 0 && memory.offset[a] < memory.offset[b] + buffers[b].bytes &&
           memory.offset[b] < memory.offset[a] + buffers[a].bytes;
  };
  std::vector<std::vector<int>> under(kept);
  for (size_t k = 0; k < kept; ++k)
    for (size_t u = 0; u < units; ++u)
      if (overlap(k, buffers[kept + units + u].bytes > 0 ? kept + units + u : kept + u))
        under[k].push_back(static_cast<int>(u));
  return under;
}

int64_t ArenaPlan::shared_bytes() const {
  int64_t sum = 0;
  for (const Lifetime& buffer : buffers) sum += buffer.bytes;
  return std::max<int64_t>(0, sum - memory.bytes);
}

Arena make_arena(std::span<const Lifetime> kept, const GradientLifetimes& gradients, at::Device device) {
  const ArenaPlan plan = plan_arena(kept, gradients);
  const std::vector<Lifetime>& all = plan.buffers;
  const at::Tensor memory = at::empty({plan.memory.bytes}, at::TensorOptions(at::kByte).device(device));
  Arena arena;
  size_t next = 0;
  const auto take = [&](std::vector<at::Tensor>& list, size_t count) {
    for (; count > 0; --count, ++next)
      list.push_back(all[next].bytes > 0 ? memory.narrow(0, plan.memory.offset[next], all[next].bytes) : at::Tensor());
  };
  take(arena.kept, kept.size());
  take(arena.gradients, gradients.full.size());
  take(arena.slices, gradients.slices.size());
  arena.shared_bytes = plan.shared_bytes();
  arena.gradients_under = plan.gradients_under();
  return arena;
}

}  // namespace partita::internal
