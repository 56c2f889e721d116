#include "partita/engine/engine_memory.h"

#include "partita/engine/activations.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_plan.h"
#include "partita/engine/handover.h"
#include "partita/nn/tensor_parallel.h"

namespace partita {

EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const Sharding& sharding,
                            const EngineOptions& options) {
  return internal::predict_memory(blocks, internal::plan_engine(blocks, sharding, options), options);
}

namespace internal {

EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const EnginePlan& plan,
                            const EngineOptions& options) {
  EngineMemory m{predict_parameter_memory(plan.units, plan.sharding, parameter_options(options))};
  for (const Lifetime& kept : plan.kept) m.activations += kept.bytes;
  m.shared = plan_arena(plan.kept, plan.gradients).shared_bytes();
  if (plan.activations_on_host) {
    for (const int64_t bytes : plan.offload.buffer_bytes(plan.kept_bytes)) m.activations += bytes;
    m.host += plan.offload.host_bytes(plan.kept_bytes);
  }
  for (const int64_t bytes : plan.open_bytes) m.activations += bytes;
  m.temporaries = Activations::temporary_bytes(blocks, options.shape, plan.recompute, options.width, options.compute,
                                               options.tensor)
                      .total();
  m.temporaries +=
      Handover::bytes(plan.handover_buffers, options.pipeline, options.tensor.stream_rows(options.shape.rows()),
                      options.width, options.compute, options.device, options.check_messages);
  m.temporaries += TensorParallel::bytes(options.tensor, options.shape.rows(), options.width, options.compute);
  return m;
}

}  // namespace internal
}  // namespace partita
