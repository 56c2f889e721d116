// The Communicator of CUDA devices, over NCCL.
//
//   auto dp = std::make_unique<NcclCommunicator>(world.group("dp", ranks), NcclCommunicator::Options{});
//   CudaStream compute = CudaStream::current();
//   compute.wait(dp->all_gather(full, slice, compute));
//
// Collectives run on a stream of the communicator's own, behind what the caller's stream holds at the call, so that
// they overlap with what is given to that stream later; the device waits for their events, the host does not. Tensors
// in host memory go to the communicator of the host (texts at start-up, checkpoints).
//
// Sums are made in rank order by our own kernel (comm/cuda/ordered_sum.h), behind an all-to-all, which moves as much as
// a reduce-scatter: NCCL's own sums round half precision at every hop, and their order depends on the ring.
//
// send and receive are posted together when the first of their events is waited for, or another collective is called:
// one NCCL group, so that two ranks that both send first do not wait for each other.
#pragma once
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/comm/cuda/watchdog.h"
#include "partita/device/cuda/stream.h"

namespace partita::internal {

class NcclCommunicator final : public Communicator {
 public:
  struct Options {
    // A collective that takes longer ends the job with its name.
    std::chrono::milliseconds timeout{600'000};
    // false: NCCL's own reductions where they have the dtypes; the bits then depend on the number and order of ranks.
    bool ordered_sums = true;
  };

  // Of the current device. `host`: a communicator of the same ranks, each with a device of its own. Every rank of the
  // group calls this. Error: NCCL does not start.
  NcclCommunicator(std::unique_ptr<Communicator> host, const Options&);
  // Waits for what is under way, unless it has failed or an exception is under way.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return host_->rank(); }
  [[nodiscard]] int size() const override { return host_->size(); }
  [[nodiscard]] const std::string& name() const override { return host_->name(); }

  [[nodiscard]] Event all_gather(at::Tensor full, at::Tensor slice, Stream&) override;
  [[nodiscard]] Event all_to_all(at::Tensor out, at::Tensor in, Stream&) override;
  [[nodiscard]] Event reduce_scatter(at::Tensor slice, at::Tensor full, Stream&) override;
  [[nodiscard]] Event all_reduce(at::Tensor, Reduce, Stream&) override;
  [[nodiscard]] Event broadcast(at::Tensor, int root, Stream&) override;
  [[nodiscard]] Event send(at::Tensor, int to, Stream&) override;
  [[nodiscard]] Event receive(at::Tensor, int from, Stream&) override;
  void barrier() override;
  void progress() override { host_->progress(); }

 private:
  class Messages;
  friend class Messages;
  struct Bytes {
    std::byte* data;
    size_t count;
  };

  // body() gives work to stream_, behind what the caller's stream holds.
  template <class Body>
  [[nodiscard]] Event run(const char* kind, const at::Tensor&, Stream&, Body body);
  [[nodiscard]] std::shared_ptr<CudaEventState> finish(const Watchdog::Call&);
  void check(ncclResult_t, const char* call);
  // Each peer gets its part of `out` and gives its part of `in`.
  template <class Out, class In>
  void exchange(Out out, In in);
  void reduce_in_parts(const at::Tensor&, Reduce);
  void reduce_at_once(const at::Tensor&, Reduce);
  [[nodiscard]] at::Tensor scratch(int64_t count, const at::Tensor& like) const;
  [[nodiscard]] bool uses_nccl_sum(at::ScalarType to, at::ScalarType from) const;
  [[nodiscard]] Event message(bool sends, const at::Tensor&, int peer, Stream&);
  void abort();

  std::unique_ptr<Communicator> host_;
  Options options_;
  CudaStream stream_;
  std::timed_mutex mutex_;  // of comm_: the watchdog aborts it
  ncclComm_t comm_ = nullptr;
  std::shared_ptr<Watchdog> watchdog_;
  std::shared_ptr<Messages> messages_;
  int64_t calls_ = 0;
  std::vector<int64_t> sent_to_, received_from_;  // messages so far, by peer
  int exceptions_ = 0;                            // under way when it was made
};

}  // namespace partita::internal
