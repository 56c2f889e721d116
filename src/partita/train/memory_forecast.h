// Memory that a run will need, computed before anything is allocated: by owner, and compared with what is free.
//
//   std::string warning = require_training_memory(config, world.size(), world.launch().local_size, device);
//   // Error: 38.8 GiB of memory is needed per rank, and 25.6 GiB is free (the limit of address space, ulimit -v):
//   //   weights  9.6 GiB, gradients  9.6 GiB, ...
//   // what lowers it:
//   //   memory.recompute=full: 24.1 GiB, steps about 30% longer, which fits
//
// The figures equal what the engine measures from its tensors (engine/engine_memory.h). Memory of the program itself
// and of its libraries is not included: an error means that the run cannot fit, but no error does not mean that it
// will.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "partita/base/free_memory.h"
#include "partita/engine/engine_options.h"
#include "partita/engine/memory_timeline.h"
#include "partita/monitor/metrics.h"
#include "partita/train/build_model.h"
#include "partita/train/memory_changes.h"

namespace partita::internal {

// Per rank. device: memory of the training device (host memory, on the CPU). host: additional host memory.
struct MemoryForecast {
  std::vector<MemoryOwner> device;
  int64_t host = 0;
  int64_t disk = 0;

  [[nodiscard]] int64_t device_bytes() const;
};

// An engine's memory by owner, as in the table at the start of a run.
[[nodiscard]] std::vector<MemoryOwner> memory_owners(const EngineMemory&);

// [pipeline stage]: of the rank with the most. Pure. The config is valid for this number of ranks and its vocabulary
// size is known.
[[nodiscard]] std::vector<MemoryForecast> forecast_stages(const Config&, int64_t ranks, at::Device);
// Of the rank at this place of the mesh. Pure.
[[nodiscard]] MemoryForecast forecast_rank(const Config&, int64_t ranks, at::Device, MeshLayout::Position);
// What is in use of the memory of a stage's engine during a step; of its first tensor-parallel rank. Pure.
[[nodiscard]] MemoryTimeline forecast_timeline(const Config&, int64_t ranks, at::Device, int stage);
// Of the rank with the most device memory; host memory and disk are the most of any rank.
[[nodiscard]] MemoryForecast forecast_training(const Config&, int64_t ranks, at::Device);

struct InferenceSize {
  ModelConfig model = {};
  LoraConfig lora = {};
  DType compute = DType::fp32;
  Shape shape = {};            // of a batch
  bool holds_weights = false;  // weights are already allocated
  int64_t cached_tokens = 0;   // capacity of the KV cache
  int zero_stage = 0;
};
[[nodiscard]] MemoryForecast forecast_inference(const InferenceSize&, int64_t ranks, at::Device);

// The message if `needed` exceeds what is free; empty: it fits. Pure.
[[nodiscard]] std::string memory_problem(const MemoryForecast& needed, const FreeMemory& free,
                                         std::span<const MemoryChange>);

// The same, computing the changes only if it does not fit. If computing them fails, they are left out.
[[nodiscard]] std::string memory_refusal(const MemoryForecast& needed, const FreeMemory& free,
                                         const std::function<std::vector<MemoryChange>()>& changes);
// The message if it fits but needs nearly all that is free; otherwise empty. Pure.
[[nodiscard]] std::string memory_warning(const MemoryForecast& needed, const FreeMemory& free);

// Errors: memory_refusal for the device or the host. Returns memory_warning, which the caller logs once rather than on
// every rank (log_memory_warning). local_ranks: number of ranks that share this machine's memory.
[[nodiscard]] std::string require_training_memory(const Config&, int64_t ranks, int local_ranks, at::Device);
[[nodiscard]] std::string require_inference_memory(const InferenceSize&, int64_t ranks, int local_ranks, at::Device);

// Logs one of the warnings collected from all ranks, which have the same needs. Call it on one rank.
void log_memory_warning(std::span<const std::string> of_ranks);

}  // namespace partita::internal
