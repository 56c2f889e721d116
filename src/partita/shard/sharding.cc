#include "partita/shard/sharding.h"

#include "partita/base/error.h"

namespace partita {
using namespace internal;

Sharding zero_sharding(int stage, int data_parallel_ranks) {
  if (stage < 0 || stage > 3) fail("ZeRO stage {}: expected 0, 1, 2 or 3", stage);
  if (stage == 0) return {.replicas = data_parallel_ranks};
  return {.ranks = data_parallel_ranks, .weights = stage == 3, .gradients = stage >= 2};
}

}  // namespace partita
