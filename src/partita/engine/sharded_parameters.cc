#include "partita/engine/sharded_parameters.h"

#include <utility>

namespace partita::internal {
namespace {

std::unique_ptr<GradientStore> make_gradients(const UnitPlan& plan, const Zero& zero, const ParameterOptions& options,
                                              ShardedParameters::GradientMemory memory, Copies* copies, Stream& compute,
                                              Stream& communication, Stream& update) {
  if (!options.training) return nullptr;
  // On the CPU whoever waits for a reduction waits in the thread that runs backward.
  const bool apart = options.early_norms && !options.device.is_cpu() && &update != &compute;
  return std::make_unique<GradientStore>(plan, zero,
                                         GradientStore::Options{.micro_batches = options.micro_batches,
                                                                .poison = options.poison,
                                                                .device = options.device,
                                                                .buffers = std::move(memory.buffers),
                                                                .slices = std::move(memory.slices),
                                                                .transient_slices = options.transient_slices,
                                                                .copies = copies,
                                                                .norm_stream = apart ? &update : nullptr},
                                         compute, communication);
}

}  // namespace

ShardedParameters::ShardedParameters(const UnitPlan& plan, const Zero& zero, const ParameterOptions& options,
                                     GradientMemory memory, Copies* copies, Stream& compute, Stream& communication,
                                     Stream& update)
    : plan_(plan),
      masters_(make_masters(plan, options)),
      weights_(plan, zero,
               {.poison = options.poison,
                .device = options.device,
                .masters = masters_,
                .on_demand = options.weights_on_demand,
                .copies = copies,
                .disk_folder = options.disk_folder},
               compute, communication),
      gradients_(make_gradients(plan, zero, options, std::move(memory), copies, compute, communication, update)),
      shards_(plan, options, masters_,
              {.shard = *zero.shard,
               .tensor = zero.tensor,
               .weights = weights_,
               .gradients = gradients_.get(),
               .copies = copies,
               .compute = compute,
               .update = update}) {}

std::vector<ParameterSpec> ShardedParameters::specs() const {
  std::vector<ParameterSpec> all;
  for (const Unit& unit : plan_.units)
    all.insert(all.end(), unit.layout.parameters.begin(), unit.layout.parameters.end());
  return all;
}

ParameterMemory ShardedParameters::memory() const {
  const OptimizerShards::Bytes states = shards_.bytes();
  return {.weights = weights_.bytes(),
          .gradients = gradients_ ? gradients_->bytes() : 0,
          .master = states.master,
          .optimizer = states.optimizer,
          .host = states.host + weights_.host_bytes() + (gradients_ ? gradients_->host_bytes() : 0),
          .disk = states.disk + weights_.disk_bytes()};
}

}  // namespace partita::internal
