// The Communicator for CUDA devices, over NCCL.
//
//   auto dp = std::make_unique<NcclCommunicator>(world.group("dp", ranks), NcclCommunicator::Options{});
//   CudaStream compute = CudaStream::current();
//   compute.wait(dp->all_gather(full, slice, compute));
//
// Collectives run on the communicator's own stream, after the work already on the caller's stream, and overlap with
// later work there; the device waits for their events, the host does not. Tensors in host memory (strings at startup,
// checkpoints) use the host communicator.
//
// Sums are computed in rank order by our own kernel (comm/cuda/ordered_sum.h) after an all-to-all, which moves as much
// data as a reduce-scatter: NCCL's sums round half precision at every hop, in an order that depends on the ring.
//
// Between GPUs of one host, copy engines (comm/cuda/peer_memory.h), which take no multiprocessors from kernels, make
// exchanges and gathers into shared memory, move the parts of large sums, and pass messages for which there is room.
//
// Other messages are deferred until one of their events is waited for or another collective is called, and then
// posted as one NCCL group, so that two ranks that both send first do not deadlock.
#pragma once
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/comm/cuda/peer_memory.h"
#include "partita/comm/cuda/watchdog.h"
#include "partita/device/cuda/stream.h"

namespace partita::internal {

class NcclCommunicator final : public Communicator {
 public:
  struct Options {
    // A collective that takes longer ends the job with an error that names it.
    std::chrono::milliseconds timeout{600'000};
    // false: NCCL's own reductions where they support the dtypes; results then depend on the number and order of ranks.
    bool ordered_sums = true;
  };

  // Uses the current device. `host`: a communicator of the same ranks, each on a device of its own. Collective. Error:
  // NCCL does not start.
  NcclCommunicator(std::unique_ptr<Communicator> host, const Options&);
  // Waits for pending collectives, unless one has failed or the stack is unwinding.
  // Collective where there is memory that ranks share.
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
  [[nodiscard]] Event exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream&) override;
  [[nodiscard]] at::Tensor shared_memory(int64_t bytes, at::Device) override;
  int64_t reserve_messages(int64_t bytes, bool receives) override;
  void barrier() override;
  void progress() override;  // posts deferred messages

 private:
  class Messages;
  friend class Messages;
  struct Bytes {
    std::byte* data;
    size_t count;
  };

  // body() enqueues work on stream_, after the work already on the caller's stream.
  template <class Body>
  [[nodiscard]] Event run(const char* kind, const at::Tensor&, Stream&, Body body);
  [[nodiscard]] std::shared_ptr<CudaEventState> finish(const Watchdog::Call& call) { return finish(call, stream_); }
  [[nodiscard]] std::shared_ptr<CudaEventState> finish(const Watchdog::Call&, const CudaStream&);
  // body(stream) enqueues copies on copies_, after the work already on the caller's stream.
  template <class Body>
  [[nodiscard]] Event run_copies(const Watchdog::Call&, Stream&, Body body);
  // Puts part r of the tensor, of this many bytes, into this rank's row of `rows` on rank r; then body() enqueues work
  // on stream_ that reads the rows.
  template <class Body>
  [[nodiscard]] Event run_sum(const char* kind, const at::Tensor&, Stream&, PeerMemory& rows, size_t bytes, Body body);
  [[nodiscard]] Event all_reduce_by_copies(const at::Tensor&, Reduce, Stream&, PeerMemory& rows);
  // What the ranks share that holds the tensor. Null: nothing, or a graph is recorded, which cannot wait for flags.
  [[nodiscard]] PeerMemory* shared_by(const at::Tensor&) const;
  // For a row from each rank, together as large as `full`. Null: NCCL moves them. Collective where it has to grow.
  [[nodiscard]] PeerMemory* rows_by_copies(const at::Tensor& full);
  // Null: not possible here.
  [[nodiscard]] std::unique_ptr<PeerMemory> create_memory(int64_t bytes);
  [[nodiscard]] std::vector<const void*> to_all(const void* sent) const;
  void check(ncclResult_t, const char* call);
  // Exchanges with every peer: its part of `in` is sent, its part of `out` received.
  template <class Out, class In>
  void exchange(Out out, In in);
  void reduce_in_parts(const at::Tensor&, Reduce);
  void reduce_at_once(const at::Tensor&, Reduce);
  [[nodiscard]] at::Tensor scratch(int64_t count, const at::Tensor& like) const;
  [[nodiscard]] bool uses_nccl_sum(at::ScalarType to, at::ScalarType from) const;
  [[nodiscard]] Event message(bool sends, const at::Tensor&, int peer, Stream&);
  void close_memory();
  void abort();

  std::unique_ptr<Communicator> host_;
  Options options_;
  CudaStream stream_, copies_;
  struct Shared {
    std::unique_ptr<PeerMemory> memory;
    at::Tensor tensor;  // of its data
  };
  std::vector<Shared> shared_;
  std::unique_ptr<PeerMemory> room_;           // for messages; null: NCCL passes them
  std::unique_ptr<PeerMemory> rows_;           // of the sum that is being made
  Event rows_read_;                            // by that sum
  bool reaches_peers_ = true;                  // as far as was tried
  std::atomic<bool> waits_for_flags_ = false;  // in memory that ranks share, from the first of it on
  std::timed_mutex mutex_;                     // guards comm_, which the watchdog may abort
  ncclComm_t comm_ = nullptr;
  std::shared_ptr<Watchdog> watchdog_;
  std::shared_ptr<Messages> messages_;
  int64_t calls_ = 0;
  std::vector<int64_t> sent_to_, received_from_;  // message counts by peer
  int exceptions_ = 0;                            // uncaught exceptions at construction
};

}  // namespace partita::internal
