// The summary block that a run prints before its first log line.
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
//     Number of trained parameters = 4915200          shown if not all are trained
//     Tokens per step = 32768
//     Parallelism = 32 ranks = 32 data, ZeRO stage 1, bf16
//     Memory per rank
//       weights      3.0 GiB   20.0%
//       ...
//
// The first six lines are those of Hugging Face.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/monitor/metrics.h"

namespace partita::internal {

struct RunSummary {
  int64_t examples = 0;            // training samples of one epoch
  int64_t micro_batch = 0;         // samples per device in one pass
  int64_t global_batch = 0;        // samples per step
  int64_t accumulation_steps = 0;  // micro-batches per device and step
  int64_t steps = 0;
  int64_t resumed_step = 0;     // 0: starts fresh
  int64_t sequence_length = 0;  // tokens per sample
  int64_t parameters = 0;
  int64_t trained_parameters = 0;     // shown if not all are trained; 0: unknown, not shown
  std::string layout{};               // "32 ranks = 32 data, ZeRO stage 1, bf16"
  std::vector<MemoryOwner> memory{};  // on rank 0
};

// Epochs are the samples that all steps consume divided by the examples, rounded up.
[[nodiscard]] std::string summary_text(const RunSummary& summary);

}  // namespace partita::internal
