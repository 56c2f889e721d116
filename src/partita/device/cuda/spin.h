// A kernel that only takes time, for device/stream_delay.h.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>

namespace partita::internal {

// The stream does nothing for so long. No time: no kernel.
void spin(std::chrono::microseconds, cudaStream_t);

}  // namespace partita::internal
