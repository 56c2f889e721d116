#include "partita/checkpoint/prune.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/checkpoint/folders.h"

namespace partita::internal {

namespace {

bool has_final_name(const ListedCheckpoint& c) {
  return c.state != CheckpointState::partial && c.state != CheckpointState::set_aside;
}

}  // namespace

PrunePlan plan_prune(std::span<const ListedCheckpoint> all, const Retention& retention) {
  PARTITA_CHECK(retention.keep_last >= 1, "keep_last {}", retention.keep_last);
  PrunePlan plan;
  std::map<int64_t, CheckpointState> steps;
  for (const ListedCheckpoint& c : all) {
    if (c.state != CheckpointState::partial && c.state != CheckpointState::complete) plan.unusable.push_back(c);
    if (has_final_name(c)) steps[c.step] = c.state;
  }
  const auto is_good = [&](int64_t step) { return steps.at(step) == CheckpointState::complete; };
  std::vector<int64_t> known;
  for (const auto& [step, state] : steps) known.push_back(step);
  const auto newest = std::find_if(known.rbegin(), known.rend(), is_good);
  if (newest == known.rend()) return plan;
  const auto written = [&](int64_t step) {
    return std::ranges::find_if(all, [&](const ListedCheckpoint& c) { return has_final_name(c) && c.step == step; })
        ->written;
  };
  const std::vector<int64_t> removed = steps_to_remove(known, *newest, retention, is_good, written);
  for (const ListedCheckpoint& c : all) {
    if (c.state != CheckpointState::complete) continue;
    (std::ranges::find(removed, c.step) != removed.end() ? plan.removed : plan.kept).push_back(c);
  }
  return plan;
}

std::vector<ListedCheckpoint> leftovers(std::span<const ListedCheckpoint> all) {
  std::vector<ListedCheckpoint> found;
  for (const ListedCheckpoint& c : all) {
    if (c.state != CheckpointState::partial) continue;
    const bool replaced = c.name != partial_path(step_folder_name(c.step)).string();
    if (!replaced || std::ranges::any_of(all, [&](const ListedCheckpoint& other) {
          return other.step == c.step && has_final_name(other);
        }))
      found.push_back(c);
  }
  return found;
}

}  // namespace partita::internal
