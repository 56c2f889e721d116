// Assigns samples to data-parallel ranks and micro-batches of a step. Pure arithmetic.
//
//   const BatchPlan plan = make_batch_plan(global_batch, micro_batch, ranks);
//   for (int64_t m = 0; m < plan.accumulation(); ++m)
//     int64_t first = first_sample(plan, consumed_samples, m, rank);   // micro_batch samples from there
//
// A step takes global_batch consecutive samples, the same for every layout: ordered by micro-batch, and within it by
// rank.
#pragma once
#include <cstdint>

namespace partita::internal {

struct BatchPlan {
  int64_t global_batch = 1;  // samples per step, over all ranks
  int64_t micro_batch = 1;   // samples per rank and forward pass
  int64_t ranks = 1;         // data-parallel ranks

  [[nodiscard]] int64_t accumulation() const { return global_batch / (micro_batch * ranks); }  // micro-batches per step
};

// Error: global_batch is not a multiple of micro_batch x ranks; the message names the nearest multiples.
[[nodiscard]] BatchPlan make_batch_plan(int64_t global_batch, int64_t micro_batch, int64_t ranks);

[[nodiscard]] constexpr int64_t first_sample(const BatchPlan& plan, int64_t consumed_samples, int64_t micro_batch_index,
                                             int64_t rank) {
  return consumed_samples + (micro_batch_index * plan.ranks + rank) * plan.micro_batch;
}

}  // namespace partita::internal
