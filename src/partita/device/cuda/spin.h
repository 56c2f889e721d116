// A kernel that only consumes time, for device/stream_delay.h.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>

namespace partita::internal {

// Keeps the stream idle for this long; no kernel if zero.
void spin(std::chrono::microseconds, cudaStream_t);

}  // namespace partita::internal
