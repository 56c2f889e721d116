#include "partita/data/batch_plan.h"

#include "partita/base/error.h"

namespace partita::internal {

BatchPlan make_batch_plan(int64_t global_batch, int64_t micro_batch, int64_t ranks) {
  if (global_batch < 1 || micro_batch < 1 || ranks < 1) {
    fail("global batch {}, micro-batch {}, {} data-parallel ranks: at least 1 of each expected", global_batch,
         micro_batch, ranks);
  }
  const int64_t at_once = micro_batch * ranks;
  if (global_batch % at_once != 0) {
    const int64_t below = global_batch / at_once * at_once, above = below + at_once;
    fail("global_batch {} is not divisible by {} data-parallel rank{} x micro_batch {}: use a global_batch of {}",
         global_batch, ranks, ranks == 1 ? "" : "s", micro_batch,
         below > 0 ? fmt::format("{} or {}", below, above) : fmt::to_string(above));
  }
  return {global_batch, micro_batch, ranks};
}

}  // namespace partita::internal
