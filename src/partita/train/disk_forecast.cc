#include "partita/train/disk_forecast.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "partita/base/file.h"
#include "partita/config/frozen.h"
#include "partita/models/model.h"
#include "partita/optim/optimizer.h"

namespace partita::internal {

int64_t checkpoint_bytes(std::span<const ParameterSpec> parameters, const StoredSizes& sizes) {
  int64_t bytes = 0;
  for (const ParameterSpec& p : parameters) {
    if (sizes.adapters_alone && !p.adapter) continue;
    bytes += p.count() * (p.trainable ? (1 + sizes.optimizer_states) * size_of(sizes.states) : size_of(sizes.weights));
  }
  return bytes;
}

int64_t checkpoint_bytes(const Config& c) {
  const auto states =
      make_optimizer({.kind = c.optimizer.kind, .momentum = c.optimizer.momentum})->state_names().size();
  const FrozenParameters frozen(c.train.freeze, c.lora);
  std::map<std::string, ParameterSpec> parameters;  // a tied one belongs to two blocks
  for (const auto& block : make_blocks(c.model, c.precision.compute, c.lora, at::kMeta))
    for (ParameterSpec& p : block->parameters()) {
      p.trainable = !frozen(p);
      parameters.emplace(p.name, std::move(p));
    }
  std::vector<ParameterSpec> whole;
  for (auto& [name, p] : parameters) whole.push_back(std::move(p));
  return checkpoint_bytes(whole, {.weights = c.precision.compute,
                                  .states = c.precision.states,
                                  .optimizer_states = static_cast<int64_t>(states),
                                  .adapters_alone = c.lora.rank > 0});
}

int64_t most_checkpoints(const CheckpointConfig& c, int64_t steps) {
  if (steps <= 0) return 0;
  // By time it may be after every step.
  const int64_t saved = !c.interval.empty() ? steps : c.every > 0 ? (steps + c.every - 1) / c.every : 1;
  if (c.keep_last == 0) return saved;
  // The oldest checkpoint is removed only once the newest is complete.
  const int64_t last = std::min(saved, c.keep_last + 1);
  const int64_t for_good = c.keep_every > 0 ? steps / c.keep_every : 0;
  return std::min(saved, last + for_good);
}

std::string disk_warning(int64_t bytes, const Config& c, int64_t steps, int64_t free) {
  const int64_t count = most_checkpoints(c.checkpoint, steps);
  const double needed = static_cast<double>(bytes) * static_cast<double>(count);
  if (needed <= static_cast<double>(free)) return {};
  return fmt::format(
      "{} checkpoint{} of {} will be held in {}, where {} is free: free some space, save fewer (checkpoint.every, "
      "interval, keep_last, keep_every, keep_hours), or choose another run.directory",
      count, count == 1 ? "" : "s", human_bytes(bytes), c.run.directory.string(), human_bytes(free));
}

}  // namespace partita::internal
