// Maximum model sizes accepted from configurations and files; beyond them, products of sizes could overflow 64-bit
// integers. Whether a model fits in memory is a separate check (train/memory_forecast.h).
#pragma once
#include <cstdint>

namespace partita::internal {

inline constexpr int64_t kMostLayers = 10'000;
inline constexpr int64_t kMostWidth = int64_t{1} << 22;  // of the residual stream
inline constexpr int64_t kMostFfnWidth = int64_t{1} << 24;
inline constexpr int64_t kMostHeads = int64_t{1} << 16;            // also channels per head and adapter rank
inline constexpr int64_t kMostPositions = (int64_t{1} << 31) - 1;  // also vocabulary size: token ids have 32 bits
inline constexpr double kMostParameters = 1e15;

}  // namespace partita::internal
