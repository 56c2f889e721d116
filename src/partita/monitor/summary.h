// What a run is about to do: the block above its first log line.
//
//   log::print(summary_text(summary));
//
//   ***** Running training *****
//     Num examples = 114248
//     Num Epochs = 29
//     Instantaneous batch size per device = 1
//     Total train batch size (w. parallel, distributed & accumulation) = 32
//     Gradient Accumulation steps = 1
//     Total optimization steps = 100000
//     Number of parameters = 1557611200
//     Number of trained parameters = 4915200          where they are not all
//     Tokens per step = 32768
//     Parallelism = 32 ranks, ZeRO stage 1, bf16
//     Memory per rank
//       weights      3.0 GiB   20.0%
//       ...
//
// The first six lines are Hugging Face's.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/monitor/metrics.h"

namespace partita::internal {

struct RunSummary {
  int64_t examples = 0;            // training samples of one epoch
  int64_t micro_batch = 0;         // samples a device takes at once
  int64_t global_batch = 0;        // samples a step
  int64_t accumulation_steps = 0;  // micro-batches a device and step
  int64_t steps = 0;
  int64_t resumed_step = 0;     // 0: from the beginning
  int64_t sequence_length = 0;  // tokens a sample
  int64_t parameters = 0;
  int64_t trained_parameters = 0;  // 0: not known, not shown; shown where they are not all
  int ranks = 1;
  int64_t zero_stage = 0;
  std::string precision{};            // "bf16"
  std::vector<MemoryOwner> memory{};  // of rank 0
};

// Epochs are those begun: the samples that the steps consume, divided by the examples, rounded up.
[[nodiscard]] std::string summary_text(const RunSummary& summary);

}  // namespace partita::internal
