// CUDA streams and events behind the interface of device/stream.h.
//
//   CudaStream compute = CudaStream::current();
//   Event gathered = dp.all_gather(full, slice, compute);
//   compute.wait(gathered);                            // the device waits, the calling thread continues
#pragma once
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "partita/device/stream.h"

namespace partita::internal {

// An event that a device can wait for without blocking the calling thread.
struct DeviceEvent : EventState {
  // Orders later work of the stream after the event.
  virtual void order(cudaStream_t stream) = 0;
};

// A CUDA event from a pool, to which it returns.
class CudaEventState : public DeviceEvent {
 public:
  explicit CudaEventState(c10::DeviceIndex device);
  ~CudaEventState() override;
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  void record(cudaStream_t stream);
  void order(cudaStream_t stream) override;
  bool test() override;
  void wait() override;

 private:
  c10::DeviceIndex device_;
  cudaEvent_t event_;
  cudaStream_t stream_ = nullptr;  // the stream it was recorded on
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(c10::cuda::CUDAStream stream) : stream_(stream) {}
  [[nodiscard]] static CudaStream current() { return CudaStream(c10::cuda::getCurrentCUDAStream()); }

  [[nodiscard]] Event record() override;
  // Blocks the calling thread for events of other kinds (host collectives).
  void wait(const Event&) override;
  void run(const std::function<void()>& work) override;
  [[nodiscard]] const c10::cuda::CUDAStream& stream() const { return stream_; }

 private:
  c10::cuda::CUDAStream stream_;
};

}  // namespace partita::internal
