// Which settings make a run fit into memory, and what they cost in time. Pure.
//
//   const std::vector<MemoryChange> changes = memory_changes(config, 8, device, {.device = 80 * kGiB}, rates);
//   changes[0]      // memory.optimizer=host:0.35: 79.1 GiB, 4.2 GiB of host memory, a step takes 2% longer
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/config/config.h"
#include "partita/train/step_time.h"

namespace partita::internal {

// Bytes of a rank.
struct MemoryRoom {
  int64_t device = 0;
  int64_t host = std::numeric_limits<int64_t>::max();  // beside the device
};

struct MemoryChange {
  std::vector<std::string> settings;            // "memory.recompute=full"; changed together
  int64_t bytes = 0;                            // of the device, with the change
  int64_t host = 0, disk = 0;                   // the same
  bool fits = false;                            // into the room
  std::optional<double> slower = std::nullopt;  // 0.02: a step takes 2% longer; negative: shorter; empty: unknown
  bool rounds = false;                          // changes rounding

  [[nodiscard]] std::string text() const;  // in a line
};

// The three cheapest changes with which the run fits, cheapest first, by the estimated time of a step at these rates:
// recomputation, micro-batches at the same global batch, ZeRO stages, bf16 states, optimizer states on the host or on
// disk (the smallest fraction in twentieths that suffices), with them weights and sums of gradients on the host, and
// activations there (the fewest layers that suffice), alone or together. None needs more memory and more time than
// another that was found, unless only the other one changes rounding; one keeps rounding, if any does. If nothing fits:
// what lowers memory most, and eight times the ranks. The config is valid, and its vocabulary size is known.
[[nodiscard]] std::vector<MemoryChange> memory_changes(const Config&, int64_t ranks, at::Device, const MemoryRoom&,
                                                       const StepRates&);

}  // namespace partita::internal
