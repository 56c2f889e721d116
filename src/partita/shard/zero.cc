#include "partita/shard/zero.h"

namespace partita {

Zero make_zero(int stage, Communicator& self, Communicator& data) {
  const Sharding sharding = zero_sharding(stage, data.size());
  if (stage == 0) return {.shard = &self, .replica = &data, .sharding = sharding};
  return {.shard = &data, .replica = &self, .sharding = sharding};
}

Zero make_zero(int stage, const Mesh& mesh) {
  Zero zero = make_zero(stage, mesh.self(), mesh.data_context());
  if (mesh.tensor().size() > 1) zero.tensor = &mesh.tensor();
  if (mesh.key_value().size() > 1) zero.key_value = &mesh.key_value();
  if (mesh.context().size() > 1) zero.context = &mesh.context();
  if (mesh.pipeline().size() > 1) zero.pipeline = &mesh.pipeline();
  if (mesh.ends().size() > 1) zero.ends = &mesh.ends();
  zero.edges = mesh.edges();
  return zero;
}

}  // namespace partita
