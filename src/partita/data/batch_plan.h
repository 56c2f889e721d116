// Which samples each data-parallel rank reads in each micro-batch of a step. Pure arithmetic.
//
//   const BatchPlan plan = make_batch_plan(global_batch, micro_batch, ranks);
//   for (int64_t m = 0; m < plan.accumulation(); ++m)
//     int64_t first = first_sample(plan, consumed_samples, m, rank);   // micro_batch samples from there
//
// A step takes global_batch neighbouring samples, the same on every layout: micro-batch after micro-batch, in each of
// them rank after rank.
#pragma once
#include <cstdint>

namespace partita::internal {

struct BatchPlan {
  int64_t global_batch = 1;  // samples a step, over all ranks
  int64_t micro_batch = 1;   // samples a rank and forward
  int64_t ranks = 1;         // data-parallel

  [[nodiscard]] int64_t accumulation() const { return global_batch / (micro_batch * ranks); }  // micro-batches a step
};

// Error: global_batch is not a multiple of micro_batch x ranks; names the nearest that are.
[[nodiscard]] BatchPlan make_batch_plan(int64_t global_batch, int64_t micro_batch, int64_t ranks);

[[nodiscard]] constexpr int64_t first_sample(const BatchPlan& plan, int64_t consumed_samples, int64_t micro_batch_index,
                                             int64_t rank) {
  return consumed_samples + (micro_batch_index * plan.ranks + rank) * plan.micro_batch;
}

}  // namespace partita::internal
