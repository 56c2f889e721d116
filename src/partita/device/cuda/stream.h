// Streams and events of a CUDA device in the terms of device/stream.h.
//
//   CudaStream compute = CudaStream::current();
//   Event gathered = dp.all_gather(full, slice, compute);
//   compute.wait(gathered);                            // the device waits, the calling thread goes on
#pragma once
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "partita/device/stream.h"

namespace partita::internal {

// What a device can wait for while the calling thread goes on.
struct DeviceEvent : EventState {
  // Later work of the stream comes after the event.
  virtual void order(cudaStream_t stream) = 0;
};

// A CUDA event from a pool, to which it goes back.
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
  cudaStream_t stream_ = nullptr;  // it was recorded on
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(c10::cuda::CUDAStream stream) : stream_(stream) {}
  [[nodiscard]] static CudaStream current() { return CudaStream(c10::cuda::getCurrentCUDAStream()); }

  [[nodiscard]] Event record() override;
  // An event of another kind (a collective of the host) blocks the calling thread.
  void wait(const Event&) override;
  void run(const std::function<void()>& work) override;
  [[nodiscard]] const c10::cuda::CUDAStream& stream() const { return stream_; }

 private:
  c10::cuda::CUDAStream stream_;
};

}  // namespace partita::internal
