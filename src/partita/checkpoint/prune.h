// Which checkpoints `partita checkpoint prune` removes: the rule that training applies after each save
// (steps_to_remove), as if the newest usable checkpoint had just been written.
//
//   const PrunePlan plan = plan_prune(list_checkpoints(root), {.keep_last = 2, .keep_every = 1000});
//   for (const ListedCheckpoint& checkpoint : plan.removed) remove_checkpoint(root / checkpoint.name);
#pragma once
#include <span>
#include <vector>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/listing.h"

namespace partita::internal {

// Ascending by step, as listed.
struct PrunePlan {
  std::vector<ListedCheckpoint> removed;
  std::vector<ListedCheckpoint> kept;      // complete ones
  std::vector<ListedCheckpoint> unusable;  // damaged, unreadable or set aside: neither counted nor removed
};

// retention.keep_last >= 1, so that the newest complete checkpoint always stays. Pure.
[[nodiscard]] PrunePlan plan_prune(std::span<const ListedCheckpoint>, const Retention& retention);

// The partial folders that remove_partials() removes: all but those that it restores, since their checkpoint was being
// replaced when its run was killed. Pure.
[[nodiscard]] std::vector<ListedCheckpoint> leftovers(std::span<const ListedCheckpoint>);

}  // namespace partita::internal
