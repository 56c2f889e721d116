// How many collectives a step takes. Pure: what WeightStore and GradStore do, counted without doing it.
//
//   int64_t gathers = gathers_per_step(plan, {.ranks = 8, .few_weights = true}, backward_reads, micro_batches);
#pragma once
#include <vector>

#include "partita/shard/units.h"

namespace partita {

// A unit's slice lies outside its slot, or there are other ranks: its slot is filled by a gather.
[[nodiscard]] bool is_gathered(const Unit&, int ranks, bool few_weights);
// A full gradient buffer that nobody else shares is its own slice: nothing is reduced.
[[nodiscard]] bool is_own_slice(int ranks, bool few_gradients);

struct Sharding {
  int ranks = 1;  // of zero.shard
  bool few_weights = false, few_gradients = false;
};

// Gathers of a training step. backward_reads[b]: whether block b reads weights in backward.
[[nodiscard]] int64_t gathers_per_step(const UnitPlan&, const Sharding&, const std::vector<bool>& backward_reads,
                                       int micro_batches);
// Reductions over zero.shard of a training step.
[[nodiscard]] int64_t reductions_per_step(const UnitPlan&, const Sharding&, int micro_batches);

}  // namespace partita
