// Tables of a run's memory, for people. Pure.
//
//   put(memory_table(forecast_stages(config, ranks, device)));
//   put(timeline_table(forecast_timeline(config, ranks, device, stage), block_names(config, stage)));
#pragma once
#include <span>
#include <string>
#include <vector>

#include "partita/config/config.h"
#include "partita/engine/memory_timeline.h"
#include "partita/train/memory_forecast.h"

namespace partita::internal {

// By owner; a column for each pipeline stage. Lines.
[[nodiscard]] std::string memory_table(std::span<const MemoryForecast> stages);

// Of the blocks of a pipeline rank, in its order: "embedding", "layer 3", "head".
[[nodiscard]] std::vector<std::string> block_names(const Config&, int rank);
// "backward 0, layer 3" of micro-batch 0, "before the first pass", "update".
[[nodiscard]] std::string moment_name(const MemoryMoment&, std::span<const std::string> blocks);
// What is in use at some of the moments, among them those with the most activations and the most of all; a line that
// compares it with what is allocated.
[[nodiscard]] std::string timeline_table(const MemoryTimeline&, std::span<const std::string> blocks);

}  // namespace partita::internal
