#include "partita/shard/zero.h"

#include "partita/base/error.h"

namespace partita {

Zero make_zero(int stage, Communicator& self, Communicator& data) {
  if (stage < 0 || stage > 3) fail("ZeRO stage {}: expected 0, 1, 2 or 3", stage);
  if (stage == 0) return {.shard = &self, .replica = &data};
  return {.shard = &data, .replica = &self, .few_weights = stage == 3, .few_gradients = stage >= 2};
}

}  // namespace partita
