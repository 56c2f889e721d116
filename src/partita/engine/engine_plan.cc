#include "partita/engine/engine_plan.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/engine/activations.h"

namespace partita::internal {
namespace {

using Blocks = std::span<const std::unique_ptr<Block>>;

UnitPlan plan_units_of(Blocks blocks, const Sharding& sharding, const EngineOptions& options) {
  std::vector<BlockParameters> parameters;
  const PipelineStage& stage = options.pipeline;
  const auto copy = stage.has_first_stage() ? ParameterSpec::Copy::first : ParameterSpec::Copy::second;
  for (int b = 0, chunk = 0; b < static_cast<int>(blocks.size()); ++b) {
    const Block& block = *blocks[static_cast<size_t>(b)];
    while (!stage.chunks.empty() && b == stage.chunks[static_cast<size_t>(chunk) + 1]) ++chunk;
    parameters.push_back({.kind = block.traits().kind, .parameters = block.parameters(), .chunk = chunk});
    for (ParameterSpec& p : parameters.back().parameters) {
      if (options.frozen) p.trainable = !options.frozen(p);
      if (!stage.tied.empty() && p.name == stage.tied) p.stage_copy = copy;
      if (options.tensor.ranks > 1 && p.local.empty())
        fail(
            "parameter {} does not say what each of {} tensor-parallel ranks holds: call set_local_boxes in "
            "Block::parameters",
            p.name, options.tensor.ranks);
    }
  }
  // Gradients that micro-batches or replicas accumulate into are fp32. Others may be half precision: sums are computed
  // in fp32 and rounded once.
  const DType half = options.fp32_gradients ? DType::fp32 : options.compute;
  const bool adds = options.micro_batches > 1, one_rank = sharding.ranks == 1 && sharding.replicas == 1;
  const DType gradient = sharding.gradients || (one_rank && !adds) ? half : DType::fp32;
  return plan_units(parameters, {.ranks = sharding.ranks,
                                 .weight = options.compute,
                                 .matrix_gradient = gradient,
                                 .matrix_gradient_sum = adds ? DType::fp32 : gradient,
                                 .tensor_ranks = options.tensor.ranks,
                                 .layers_per_unit = options.layers_per_unit});
}

StepBlocks plan_blocks(Blocks blocks, int first_trainable, const PipelineStage& stage) {
  StepBlocks step{.count = static_cast<int>(blocks.size()),
                  .first_trainable = first_trainable,
                  .backward_reads = {},
                  .chunks = stage.chunks,
                  .trains_below = stage.trains_below};
  for (int chunk = 0; chunk < stage.shape.chunks; ++chunk)
    for (int b = step.begin(chunk); b < step.end(chunk); ++b)
      step.backward_reads.push_back(b >= step.lowest_backward(chunk) &&
                                    blocks[static_cast<size_t>(b)]->traits().backward_reads_weights);
  return step;
}

std::vector<BlockRecompute> plan_recompute(std::span<const BlockKind> kinds, const StepBlocks& blocks,
                                           const EngineOptions& options) {
  std::vector<BlockRecompute> recompute(kinds.size());
  if (!options.training) return recompute;
  for (int chunk = 0; chunk < options.pipeline.shape.chunks; ++chunk)
    std::fill(recompute.begin() + blocks.lowest_backward(chunk), recompute.begin() + blocks.end(chunk),
              options.recompute);
  int layers = 0;
  for (size_t b = 0; b < kinds.size(); ++b)
    if (kinds[b] == BlockKind::layer && layers++ < options.full_recompute_layers && recompute[b])
      recompute[b] = Recompute::full;
  return recompute;
}

StepActions plan_step(const EngineOptions& options) {
  const PipelineStage& stage = options.pipeline;
  StepActions step;
  if (!options.actions.empty())
    step.actions = options.actions;
  else if (stage.pipelined())
    step.actions = stage_actions(stage.shape, stage.rank, stage.open_weights);
  else
    step = one_stage(options.micro_batches);
  return step;
}

OffloadPlan plan_activations(const EnginePlan& plan, const EngineOptions& options) {
  const std::span<const Action> actions = plan.step.actions;
  if (plan.activations_on_host && splits_backward(actions))
    fail(
        "offloaded activations with weight gradients in passes of their own: these do not work together yet, use one "
        "of them");
  std::vector<SlotUse> uses;
  size_t head = 0;
  for (size_t a = 0; a < actions.size(); ++a) {
    if (a == static_cast<size_t>(plan.step.head)) head = uses.size();
    for (const BlockUse& use : block_uses(actions.subspan(a, 1), plan.blocks)) uses.push_back({actions[a].slot, use});
  }
  return plan_activation_offload(plan.recompute, plan.kinds, plan.activations_on_host ? options.offload.activations : 0,
                                 plan.slots, uses, head, plan.step.times);
}

// The blocks of a chunk in each set that its passes use.
std::vector<int64_t> plan_open_bytes(Blocks blocks, const EnginePlan& plan, const EngineOptions& options) {
  int sets = 0;
  for (const Action& action : plan.step.actions) sets = std::max(sets, action.open + 1);
  std::vector<int64_t> bytes(static_cast<size_t>(sets) * blocks.size(), 0);
  for (const Action& action : plan.step.actions) {
    if (action.open < 0) continue;
    for (int b = plan.blocks.lowest_backward(action.chunk); b < plan.blocks.end(action.chunk); ++b) {
      const auto block = static_cast<size_t>(b);
      if (plan.kinds[block] != BlockKind::layer) continue;
      std::vector<bool> trained;
      for (const Placement& place : plan.units.blocks[block])
        trained.push_back(plan.units.units[static_cast<size_t>(place.unit)].trainable);
      bytes[static_cast<size_t>(action.open) * blocks.size() + block] =
          bytes_of(blocks[block]->operands(options.shape, plan.recompute[block], options.compute, trained));
    }
  }
  return bytes;
}

}  // namespace

ParameterOptions parameter_options(const EngineOptions& options) {
  return {.compute = options.compute,
          .states = options.states,
          .micro_batches = options.micro_batches,
          .optimizer = options.optimizer,
          .training = options.training,
          .disk_folder = options.offload.disk_folder,
          .poison = options.poison,
          .device = options.device};
}

EnginePlan plan_engine(Blocks blocks, const Sharding& given, const EngineOptions& options) {
  check_shares(options.offload, "EngineOptions");
  if (options.offload.early_updates && options.optimizer.kind == OptimizerKind::lamb)
    fail(
        "EngineOptions: offload.early_updates with LAMB, whose updates need norms of whole parameters: use AdamW or "
        "SGD");
  PARTITA_CHECK(options.states == DType::fp32 || options.states == options.compute, "states in {} with compute in {}",
                name_of(options.states), name_of(options.compute));
  EnginePlan plan;
  plan.step = plan_step(options);
  plan.sharding = given;
  if (splits_backward(plan.step.actions)) plan.sharding.gradients = false;
  const Sharding& sharding = plan.sharding;
  for (const auto& block : blocks) plan.kinds.push_back(block->traits().kind);
  plan.units = plan_units_of(blocks, sharding, options);
  if (options.training) {
    place_states(plan.units, {.host = options.offload.optimizer, .disk = options.offload.disk},
                 options.micro_batches == 1 && !splits_backward(plan.step.actions));
    if (options.offload.gradients && splits_backward(plan.step.actions))
      fail(
          "gradients of micro-batches that are added in host memory, with weight gradients in passes of their own: "
          "these "
          "do not work together, use one of them");
    if (options.offload.gradients && options.micro_batches > 1) place_gradient_sums(plan.units);
    place_weights(plan.units, {.host = options.offload.weights, .disk = options.offload.weights_disk});
  }
  plan.blocks = plan_blocks(blocks, first_trainable_block(plan.units), options.pipeline);
  const PipelineStage& stage = options.pipeline;
  if (!options.actions.empty() || stage.pipelined())
    plan.slots = activation_slots(plan.step.actions, options.micro_batches);
  const std::span<const Action> actions = plan.step.actions;
  const size_t head = block_uses(actions.first(static_cast<size_t>(plan.step.head)), plan.blocks).size();
  plan.training = plan_uses(plan.units, sharding, block_uses(actions, plan.blocks), head, plan.step.times);
  plan.forward_actions = forward_actions(stage.placement(), stage.rank);
  for (Action& action : plan.forward_actions)  // in activation slots of training
    for (const Action& pass : actions)
      if (pass.chunk == action.chunk && pass.transfer == Transfer::none) action.slot = pass.slot;
  if (stage.pipelined())
    plan.handover_buffers =
        std::max(handover_buffers(plan.step.actions, stage), handover_buffers(plan.forward_actions, stage));
  plan.forward = plan_uses(plan.units, sharding, block_uses(plan.forward_actions, plan.blocks));

  plan.recompute = plan_recompute(plan.kinds, plan.blocks, options);
  plan.open_bytes = plan_open_bytes(blocks, plan, options);
  plan.kept_bytes = Activations::kept_bytes(blocks, options.shape, plan.recompute);
  plan.updates_early = options.offload.early_updates && std::ranges::any_of(plan.units.units, [](const Unit& unit) {
                         return unit.states == StatesPlace::host;
                       });
  plan.parameters_off_device = std::ranges::any_of(
      plan.units.units, [](const Unit& unit) { return unit.on_host() || unit.weights != StatesPlace::device; });
  plan.activations_on_host = options.training && options.offload.activations > 0;
  plan.offload = plan_activations(plan, options);

  std::vector<int64_t> arena_bytes = plan.kept_bytes;
  for (size_t b = 0; b < blocks.size(); ++b)
    if (plan.offload.buffer[b] >= 0) arena_bytes[b] = 0;
  const Moments moments(actions, plan.blocks);
  plan.kept = kept_lifetimes(moments, plan.slots, arena_bytes);
  if (options.training)
    plan.gradients = gradient_lifetimes(plan.units, plan_gradients(plan.units, sharding, options.micro_batches),
                                        moments, options.micro_batches);
  return plan;
}

}  // namespace partita::internal
