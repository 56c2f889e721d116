// Forecasts the disk space of a run's checkpoints, so that a lack of it is reported at startup rather than after hours.
//
//   const std::string text = disk_warning(bytes, config, steps_left, free_bytes(folder));
//   if (!text.empty()) log::warn("{}", text);
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "partita/base/dtype.h"
#include "partita/config/config.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

struct StoredSizes {
  DType weights = DType::fp32;  // parameters that are not trained
  DType states = DType::fp32;   // master weights and optimizer states
  int64_t optimizer_states = 0;
  bool adapters_alone = false;  // a run with adapters saves only these
};

// Bytes of one checkpoint over all ranks. Pure.
[[nodiscard]] int64_t checkpoint_bytes(std::span<const ParameterSpec>, const StoredSizes&);

// The same for a run. Pure. The config is valid, and its vocabulary size is known.
[[nodiscard]] int64_t checkpoint_bytes(const Config&);

// Maximum number of checkpoints on disk at the same time in a run with `steps` left. Pure.
[[nodiscard]] int64_t most_checkpoints(const CheckpointConfig&, int64_t steps);

// A warning, or empty if the checkpoints fit. Pure.
[[nodiscard]] std::string disk_warning(int64_t checkpoint_bytes, const Config&, int64_t steps, int64_t free);

}  // namespace partita::internal
