// The communicators of a sharding (shard/sharding.h has the table of ZeRO stages).
#pragma once
#include "partita/comm/communicator.h"
#include "partita/comm/mesh.h"
#include "partita/shard/sharding.h"

namespace partita {

struct Zero {
  Communicator* shard;    // ranks that each hold a slice of a unit
  Communicator* replica;  // ranks that hold the same slice
  Sharding sharding;      // ranks and replicas equal the sizes of both
  // Ranks that compute each block together, and those of them that hold the same key/value heads. Null: this rank
  // alone.
  Communicator *tensor = nullptr, *key_value = nullptr;
  // Ranks with pieces of the same sequences; they are in `shard` and `replica`, too. Null: whole sequences.
  Communicator* context = nullptr;
  // Stages of a pipeline, and its first and last one, where this rank has one of these. Null: no pipeline.
  Communicator *pipeline = nullptr, *ends = nullptr;
  const PipelineEdges* edges = nullptr;  // between neighboring stages
};

// `self` has one rank. Error: stage not 0 to 3.
[[nodiscard]] Zero make_zero(int stage, Communicator& self, Communicator& data);
// Over the data- and context-parallel ranks, with the other groups of the mesh.
[[nodiscard]] Zero make_zero(int stage, const Mesh&);

}  // namespace partita
