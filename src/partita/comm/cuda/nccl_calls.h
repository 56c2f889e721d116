// What the collectives of NcclCommunicator have in common: for its source files alone.
#pragma once
#include <c10/cuda/CUDAGuard.h>

#include <cstddef>
#include <mutex>

#include "partita/base/cuda_error.h"
#include "partita/comm/cuda/nccl_communicator.h"
#include "partita/comm/cuda/nccl_messages.h"

namespace partita::internal {

inline std::byte* data(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

inline void copy(std::byte* to, const std::byte* from, size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && to != from) PARTITA_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PARTITA_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

template <class Body>
Event NcclCommunicator::run(const char* kind, const at::Tensor& tensor, Stream& stream, Body body) {
  if (watchdog_) watchdog_->check();
  messages_->post();
  stream_.wait(stream.record());
  const Watchdog::Call call{kind, calls_++, static_cast<int64_t>(tensor.nbytes())};
  if (tensor.numel() > 0) {
    const Watchdog::Posting posting(watchdog_.get(), call);
    const c10::cuda::CUDAStreamGuard guard(stream_.stream());
    const std::lock_guard lock(mutex_);
    body();
  }
  return Event(finish(call));
}

template <class Body>
Event NcclCommunicator::run_copies(const Watchdog::Call& call, Stream& stream, Body body) {
  watchdog_->check();
  copies_.wait(stream.record());
  {
    const Watchdog::Posting posting(watchdog_.get(), call);
    body(copies_.stream().stream());
  }
  return Event(finish(call, copies_));
}

template <class Out, class In>
void NcclCommunicator::exchange(Out out, In in) {
  const cudaStream_t stream = stream_.stream();
  check(ncclGroupStart(), "exchange");
  for (int i = 1; i < size(); ++i) {
    const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
    const Bytes sent = in(to), got = out(from);
    if (sent.count > 0) check(ncclSend(sent.data, sent.count, ncclUint8, to, comm_, stream), "exchange");
    if (got.count > 0) check(ncclRecv(got.data, got.count, ncclUint8, from, comm_, stream), "exchange");
  }
  check(ncclGroupEnd(), "exchange");
}

}  // namespace partita::internal
