// The communicators over which a sharding is spread (shard/sharding.h has the table of ZeRO's stages).
#pragma once
#include "partita/comm/communicator.h"
#include "partita/shard/sharding.h"

namespace partita {

struct Zero {
  Communicator* shard;    // the ranks over which units are cut
  Communicator* replica;  // the ranks that hold the same slice
  Sharding sharding;      // its ranks and replicas are the sizes of both
};

// `self` has one rank. Error: stage not 0 to 3.
[[nodiscard]] Zero make_zero(int stage, Communicator& self, Communicator& data);

}  // namespace partita
