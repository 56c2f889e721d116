#include "partita/engine/engine_plan.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/engine/activations.h"

namespace partita {
namespace {

using Blocks = std::span<const std::unique_ptr<Block>>;

UnitPlan plan_units_of(Blocks blocks, const Sharding& sharding, int replicas, const EngineOptions& options) {
  std::vector<std::vector<ParameterSpec>> parameters;
  for (const auto& block : blocks) {
    parameters.push_back(block->parameters());
    if (options.frozen)
      for (ParameterSpec& p : parameters.back()) p.trainable = !options.frozen(p);
  }
  // What micro-batches or replicas add up in is fp32, else it may be half precision: sums are made in fp32 and rounded once.
  const DType half = options.fp32_gradients ? DType::fp32 : options.compute;
  const bool adds = options.micro_batches > 1, one_rank = sharding.ranks == 1 && replicas == 1;
  const DType gradient = sharding.few_gradients || (one_rank && !adds) ? half : DType::fp32;
  return plan_units(parameters, {.ranks = sharding.ranks,
                                 .weight = options.compute,
                                 .matrix_gradient = gradient,
                                 .matrix_gradient_sum = adds ? DType::fp32 : gradient,
                                 .blocks_per_unit = options.blocks_per_unit});
}

// Blocks below the first that is trained have no backward.
std::vector<bool> plan_backward_reads(Blocks blocks, int first_trainable) {
  std::vector<bool> reads;
  for (const auto& block : blocks)
    reads.push_back(static_cast<int>(reads.size()) >= first_trainable && block->backward_reads_weights());
  return reads;
}

std::vector<Keep> plan_keeps(size_t blocks, int first_trainable, const EngineOptions& options) {
  std::vector<Keep> keeps(blocks, options.keep);
  // Block 0 is the embedding, the last the head.
  for (size_t b = 1; b + 1 < blocks && static_cast<int>(b) <= options.entry_layers; ++b)
    keeps[b] = std::min(options.keep, Keep::entry);
  for (size_t b = 0; b < blocks && static_cast<int>(b) < first_trainable; ++b) keeps[b] = Keep::nothing;
  return keeps;
}

}  // namespace

EnginePlan plan_engine(Blocks blocks, const Sharding& sharding, int replicas, const EngineOptions& options) {
  PARTITA_CHECK(options.states == DType::fp32 || options.states == options.compute, "states in {} with compute in {}",
                name_of(options.states), name_of(options.compute));
  EnginePlan plan;
  plan.units = plan_units_of(blocks, sharding, replicas, options);
  plan.first_trainable = first_trainable_block(plan.units);
  plan.backward_reads = plan_backward_reads(blocks, plan.first_trainable);
  plan.keeps = plan_keeps(blocks.size(), plan.first_trainable, options);
  plan.kept_bytes = Activations::kept_bytes(blocks, options.shape, plan.keeps);

  plan.states_on_host = options.training && options.offload.optimizer;
  plan.activations_on_host = options.training && options.offload.activations > 0;
  plan.offloaded = plan_activation_offload(plan.keeps, plan.activations_on_host ? options.offload.activations : 0);
  plan.arena_bytes = plan.kept_bytes;
  for (size_t b = 0; b < blocks.size(); ++b)
    if (plan.offloaded[b].slot >= 0) plan.arena_bytes[b] = 0;
  // Gradients that leave for the host stay on the device for a moment only.
  if (options.training && !plan.states_on_host)
    plan.gradients = gradient_lifetimes(plan.units, sharding, options.micro_batches);
  return plan;
}

}  // namespace partita
