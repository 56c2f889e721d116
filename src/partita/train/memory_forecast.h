// How much memory a run takes, before anything is allocated: by owner, against what is free, and what would lower it.
//
//   std::string warning = require_training_memory(config, world.size(), world.launch().local_size, device);
//   // Error: 38.8 GiB of memory is needed on each rank, and 5.6 GiB is free (the limit of address space, ulimit -v):
//   //   weights  9.6 GiB, gradients  9.6 GiB, ...
//   // lower it by memory.recompute=full (24.1 GiB), train.micro_batch=1 (20.2 GiB), or all of these (12.0 GiB)
//
// The figures are those that the engine measures of its tensors (engine/engine_memory.h). What the program itself and the
// libraries below take is not among them: an error means that the run cannot fit, the reverse is not promised.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "partita/base/free_memory.h"
#include "partita/engine/engine_options.h"
#include "partita/monitor/metrics.h"
#include "partita/train/build_model.h"

namespace partita::internal {

// Of one rank. device: where the run computes, the host's memory on the CPU. host: in the host's memory besides.
struct MemoryForecast {
  std::vector<MemoryOwner> device;
  int64_t host = 0;

  [[nodiscard]] int64_t device_bytes() const;
};

// Owners of an engine's memory, as the table at the start of a run shows them.
[[nodiscard]] std::vector<MemoryOwner> memory_owners(const EngineMemory&);

// Pure. The config is valid for this number of ranks, its vocabulary known.
[[nodiscard]] MemoryForecast forecast_training(const Config&, int64_t ranks, at::Device);

struct InferenceSize {
  ModelConfig model = {};
  LoraConfig lora = {};
  DType compute = DType::fp32;
  Shape shape = {};            // of a batch
  bool holds_weights = false;  // they are in memory already
  int64_t cached_tokens = 0;   // whose keys and values are kept
  int zero_stage = 0;
};
[[nodiscard]] MemoryForecast forecast_inference(const InferenceSize&, int64_t ranks, at::Device);

// Another value of a key, and the bytes on the device with it.
struct MemorySaving {
  std::string change;  // "memory.recompute=full"
  int64_t bytes = 0;
};
// Those that save at least a twentieth, the largest saving first; then, where there are several, those together that keep the
// run as it is; then more ranks. Pure.
[[nodiscard]] std::vector<MemorySaving> memory_savings(const Config&, int64_t ranks, at::Device);

// What is said where `needed` is more than is free; empty: it fits. Pure.
[[nodiscard]] std::string memory_problem(const MemoryForecast& needed, const FreeMemory& free,
                                         std::span<const MemorySaving>);

// The same, with the savings worked out where it does not fit. Where that fails it is refused without them.
[[nodiscard]] std::string memory_refusal(const MemoryForecast& needed, const FreeMemory& free,
                                         const std::function<std::vector<MemorySaving>()>& savings);
// What is said where it fits and nearly all that is free is needed; otherwise empty. Pure.
[[nodiscard]] std::string memory_warning(const MemoryForecast& needed, const FreeMemory& free);

// Errors: memory_refusal, of the device or of the host. Returns memory_warning, which the caller says once and not on every
// rank (say_memory_warning). local_ranks: that share the memory of this machine.
[[nodiscard]] std::string require_training_memory(const Config&, int64_t ranks, int local_ranks, at::Device);
[[nodiscard]] std::string require_inference_memory(const InferenceSize&, int64_t ranks, int local_ranks, at::Device);

// Says one of the warnings of all ranks, which need the same; on the rank that calls it.
void say_memory_warning(std::span<const std::string> of_ranks);

}  // namespace partita::internal
