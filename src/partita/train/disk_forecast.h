// The disk that a run's checkpoints will take, said at its start rather than after hours.
//
//   const int64_t bytes = checkpoint_bytes(engine.parameters(), sizes);
//   if (const std::string text = disk_warning(bytes, config, steps_left, free_bytes(folder)); !text.empty()) log::warn("{}", text);
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "partita/base/dtype.h"
#include "partita/config/config.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

struct StoredSizes {
  DType weights = DType::fp32;  // of what is not trained
  DType states = DType::fp32;   // of master weights and optimizer states
  int64_t optimizer_states = 0;
  bool adapters_alone = false;  // of a run with adapters nothing else is saved
};

// Bytes of one checkpoint, all ranks' files together. Pure.
[[nodiscard]] int64_t checkpoint_bytes(std::span<const ParameterSpec>, const StoredSizes&);

// How many of them a run that still has `steps` to go will hold at the same time, at most. Pure.
[[nodiscard]] int64_t most_checkpoints(const CheckpointConfig&, int64_t steps);

// Empty: they fit. Pure.
[[nodiscard]] std::string disk_warning(int64_t checkpoint_bytes, const Config&, int64_t steps, int64_t free);

}  // namespace partita::internal
