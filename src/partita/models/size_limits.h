// The largest sizes of a model that are taken, from a configuration or from a file: beyond them products of sizes could
// leave 64-bit integers. What fits into memory is another question (train/memory_forecast.h).
#pragma once
#include <cstdint>

namespace partita::internal {

inline constexpr int64_t kMostLayers = 10'000;
inline constexpr int64_t kMostWidth = int64_t{1} << 22;  // of the residual stream
inline constexpr int64_t kMostFfnWidth = int64_t{1} << 24;
inline constexpr int64_t kMostHeads = int64_t{1} << 16;            // also channels per head, and rank of adapters
inline constexpr int64_t kMostPositions = (int64_t{1} << 31) - 1;  // also tokens of a vocabulary: ids have 32 bits
inline constexpr double kMostParameters = 1e15;

}  // namespace partita::internal
