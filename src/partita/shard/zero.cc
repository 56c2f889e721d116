#include "partita/shard/zero.h"

namespace partita {

Zero make_zero(int stage, Communicator& self, Communicator& data) {
  const Sharding sharding = zero_sharding(stage, data.size());
  if (stage == 0) return {.shard = &self, .replica = &data, .sharding = sharding};
  return {.shard = &data, .replica = &self, .sharding = sharding};
}

}  // namespace partita
