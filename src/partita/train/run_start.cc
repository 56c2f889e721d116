#include "partita/train/run_start.h"

#include <string>
#include <vector>

#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"
#include "partita/device/device_use.h"
#include "partita/models/flops.h"
#include "partita/monitor/summary.h"
#include "partita/ops/matmul_rate.h"
#include "partita/train/build_model.h"
#include "partita/train/disk_forecast.h"
#include "partita/train/layout_text.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/memory_tier.h"

namespace partita::internal {
namespace {

std::vector<MemoryOwner> memory_table(const EngineMemory& m, int64_t workspace) {
  std::vector<MemoryOwner> owners = memory_owners(m);
  if (workspace > 0) owners.push_back({"workspace", workspace});
  return owners;
}

int64_t trained_parameters(const Engine& engine) {
  int64_t count = 0;
  for (const ParameterSpec& p : engine.parameters()) count += p.trainable ? p.count() : 0;
  return count;
}

}  // namespace

RunInfo run_info(const Config& config, const Engine& engine, const Communicator& ranks, const at::Device& device,
                 int64_t step, int64_t samples) {
  return {.rank = ranks.rank(),
          .ranks = ranks.size(),
          .total_steps = config.train.steps,
          .resumed_step = step,
          .resumed_samples = samples,
          .global_batch = config.train.global_batch,
          .tokens_per_step = config.train.global_batch * config.train.sequence_length,
          .parameters = parameter_count(config.model),
          .trained_parameters = trained_parameters(engine),
          .flops_per_token = flops_per_token(config.model, config.train.sequence_length, config.lora.rank == 0),
          .peak_flops = device.is_cuda() ? peak_flops(device_use(device).name, config.precision.compute)
                                         : matmul_rate(config.precision.compute),
          .on_cpu = device.is_cpu(),
          .directory = config.run.directory,
          .settings = to_toml(config)};
}

void announce_run(const Config& config, const RunInfo& info, const Engine& engine, int64_t examples,
                  int64_t workspace) {
  log::print(summary_text({.examples = examples,
                           .micro_batch = config.train.micro_batch,
                           .global_batch = config.train.global_batch,
                           .accumulation_steps = accumulation_steps(config, info.ranks),
                           .steps = config.train.steps,
                           .resumed_step = info.resumed_step,
                           .sequence_length = config.train.sequence_length,
                           .parameters = info.parameters,
                           .trained_parameters = info.trained_parameters,
                           .layout = layout_text(config, info.ranks),
                           .memory = memory_table(engine.memory(), workspace)}));
  const int64_t saved =
      checkpoint_bytes(engine.parameters(), {.weights = config.precision.compute,
                                             .states = config.precision.states,
                                             .optimizer_states = std::ssize(engine.optimizer_state_names()),
                                             .adapters_alone = config.lora.rank > 0});
  const std::string warning =
      disk_warning(saved, config, config.train.steps - info.resumed_step, free_bytes(config.run.directory));
  if (!warning.empty() && info.rank == 0) log::warn("{}", warning);
  if (const std::string in_memory = memory_tier_warning(config, saved); !in_memory.empty() && info.rank == 0)
    log::warn("{}", in_memory);
  if (const int64_t host = engine.memory().host; host > 0)
    log::info("offload: in addition {} of host memory on this rank", human_bytes(host));
  if (const int64_t disk = engine.memory().disk; disk > 0)
    log::info("offload: {} in a file of this rank in {}", human_bytes(disk),
              printable_line(disk_folder(config).string()));
}

}  // namespace partita::internal
