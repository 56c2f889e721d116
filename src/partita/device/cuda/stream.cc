#include "partita/device/cuda/stream.h"

#include <c10/cuda/CUDAGuard.h>

#include <map>
#include <mutex>
#include <vector>

#include "partita/base/cuda_error.h"
#include "partita/device/cuda/spin.h"
#include "partita/device/stream_delay.h"

namespace partita::internal {
namespace {

// Unused events, by device. Creating one costs more than recording it.
class Pool {
 public:
  cudaEvent_t take(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    std::vector<cudaEvent_t>& free = free_[device];
    if (free.empty()) {
      const c10::cuda::CUDAGuard guard(device);
      cudaEvent_t event = nullptr;
      PARTITA_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      return event;
    }
    cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  void give_back(c10::DeviceIndex device, cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    free_[device].push_back(event);
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::vector<cudaEvent_t>> free_;
};

Pool& pool() {
  static auto* all = new Pool;  // never destroyed: the driver may be gone at exit
  return *all;
}

}  // namespace

CudaEventState::CudaEventState(c10::DeviceIndex device) : device_(device), event_(pool().take(device)) {}
// Safe to reuse immediately: waiters wait for the record that was current when they started waiting.
CudaEventState::~CudaEventState() { pool().give_back(device_, event_); }

void CudaEventState::record(cudaStream_t stream) {
  const c10::cuda::CUDAGuard guard(device_);
  PARTITA_CUDA_CHECK(cudaEventRecord(event_, stream));
  stream_ = stream;
}

void CudaEventState::order(cudaStream_t stream) {
  if (stream == stream_) return;  // already ordered; and a captured stream must not wait for earlier events
  PARTITA_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
}

bool CudaEventState::test() {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  PARTITA_CUDA_CHECK(state);
  return true;
}

void CudaEventState::wait() { PARTITA_CUDA_CHECK(cudaEventSynchronize(event_)); }

Event CudaStream::record() {
  spin(next_stream_delay(), stream_);
  auto state = std::make_shared<CudaEventState>(stream_.device_index());
  state->record(stream_);
  return Event(std::move(state));
}

void CudaStream::wait(const Event& event) {
  if (event.state() == nullptr) return;
  if (auto* on_device = dynamic_cast<DeviceEvent*>(event.state().get()))
    on_device->order(stream_);
  else
    event.wait();
  spin(next_stream_delay(), stream_);
}

void CudaStream::run(const std::function<void()>& work) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  work();
}

}  // namespace partita::internal
