// What a run is about to do: the block that stands above its first log line.
//
//   log::print(summary_text(summary));
//
//   ***** Running training *****
//     Num examples = 9,812
//     Num epochs = 3.26
//     Instantaneous batch size per device = 4
//     Total train batch size (w. parallel, distributed & accumulation) = 32 (8,192 tokens)
//     Gradient accumulation steps = 4
//     Total optimization steps = 1,000
//     Number of parameters = 12,345,678
//     Parallelism = 2 ranks, ZeRO stage 2, bf16
//     Memory of a rank by owner
//       weights       47.1 MiB   20.0%
//       ...
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/train/metrics.h"

namespace partita {

struct RunSummary {
  int64_t examples = 0;              // training samples of one epoch
  int64_t micro_batch = 0;           // samples a device takes at once
  int64_t global_batch = 0;          // samples a step
  int64_t accumulation_steps = 0;    // micro-batches a device and step
  int64_t steps = 0;
  int64_t resumed_step = 0;          // 0: from the beginning
  int64_t sequence_length = 0;       // tokens a sample
  int64_t parameters = 0;
  int ranks = 1;
  int64_t zero_stage = 0;
  std::string precision;             // "bf16"
  std::vector<MemoryOwner> memory;   // of the fullest rank
};

// Epochs: samples that the steps consume over examples; a share of one is no whole one.
[[nodiscard]] std::string summary_text(const RunSummary& summary);

// "12,345,678"
[[nodiscard]] std::string grouped(int64_t value);

}  // namespace partita
