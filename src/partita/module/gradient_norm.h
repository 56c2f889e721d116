// The norm of gradients whose slices are on several ranks.
#pragma once
#include <span>

#include "partita/comm/communicator.h"
#include "partita/shard/gradient_store.h"

namespace partita::internal {

// Of the reduced gradients in all stores, after finish, over the ranks of all groups, which have different parts; p is
// 1, 2 or infinity. Not finite if an element on any rank is not. Collective.
[[nodiscard]] double gradient_norm(std::span<GradientStore* const>, double p, std::span<Communicator* const> groups,
                                   Stream& compute, at::Device);

}  // namespace partita::internal
