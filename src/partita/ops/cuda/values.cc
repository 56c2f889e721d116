#include "partita/ops/cuda/values.h"

#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>

#include "partita/ops/cuda/check.h"

namespace partita::internal::cuda {

ValueError* value_error() {
  static std::mutex mutex;
  static auto* notes = new std::map<int, ValueError*>;  // never destroyed: the driver may be gone at exit
  int device = 0;
  PARTITA_CUDA_CHECK(cudaGetDevice(&device));
  const std::lock_guard lock(mutex);
  ValueError*& note = (*notes)[device];
  if (note == nullptr) {
    void* memory = nullptr;
    PARTITA_CUDA_CHECK(cudaMalloc(&memory, sizeof(ValueError)));
    PARTITA_CUDA_CHECK(cudaMemset(memory, 0, sizeof(ValueError)));
    PARTITA_CUDA_CHECK(cudaDeviceSynchronize());
    note = static_cast<ValueError*>(memory);
  }
  return note;
}

void check_values() {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  ValueError found{};
  PARTITA_CUDA_CHECK(cudaMemcpyAsync(&found, value_error(), sizeof(found), cudaMemcpyDeviceToHost, stream));
  PARTITA_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (found.kind == ValueKind::fine) return;
  PARTITA_CUDA_CHECK(cudaMemsetAsync(value_error(), 0, sizeof(ValueError), stream));
  if (found.kind == ValueKind::label)
    fail("label {} of row {} is outside 0..{}: the data does not belong to this model", found.value, found.place,
         found.limit - 1);
  fail("{} {} in sample {} at place {} is outside 0..{}: the data does not belong to this model",
       found.kind == ValueKind::token ? "token" : "position", found.value, found.place / found.length,
       found.place % found.length, found.limit - 1);
}

}  // namespace partita::internal::cuda
