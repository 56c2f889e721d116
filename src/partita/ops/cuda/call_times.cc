#include "partita/ops/cuda/call_times.h"

#include <algorithm>

#include "partita/base/cuda_error.h"

namespace partita::internal::cuda {

cudaEvent_t CallTimes::record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  PARTITA_CUDA_CHECK(cudaEventCreate(&event));
  PARTITA_CUDA_CHECK(cudaEventRecord(event, stream));
  return event;
}

std::vector<std::vector<float>> CallTimes::take() {
  std::vector<std::vector<float>> milliseconds;
  for (const Call& call : open_) {
    const auto candidate = static_cast<size_t>(call.candidate);
    milliseconds.resize(std::max(milliseconds.size(), candidate + 1));
    PARTITA_CUDA_CHECK(cudaEventSynchronize(call.end));
    float took = 0;
    PARTITA_CUDA_CHECK(cudaEventElapsedTime(&took, call.begin, call.end));
    milliseconds[candidate].push_back(took);
    PARTITA_CUDA_CHECK(cudaEventDestroy(call.begin));
    PARTITA_CUDA_CHECK(cudaEventDestroy(call.end));
  }
  open_.clear();
  return milliseconds;
}

}  // namespace partita::internal::cuda
