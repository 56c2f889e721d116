// The Communicator for the CPU: collectives as pairwise messages over any Transport.
//
//   auto operations = std::make_shared<Operations>(make_mpi_transport(), 600s);
//   PeerCommunicator dp(operations, group);
//
// Algorithms (N ranks, n bytes per rank's part): all-gather and all-to-all send n directly to each of N-1 peers;
// reduce-scatter is an all-to-all into (N-1)n bytes of scratch memory and a sum in rank order; all-reduce is a
// reduce-scatter and an all-gather, or, if small, sends the tensor to every rank and sums everywhere; broadcast uses a
// binomial tree; the barrier disseminates (Hensgen et al., 1988).
#pragma once
#include <memory>

#include "partita/comm/communicator.h"
#include "partita/comm/operation.h"

namespace partita::internal {

class PeerCommunicator final : public Communicator {
 public:
  PeerCommunicator(std::shared_ptr<Operations> operations, Group group);

  [[nodiscard]] int rank() const override { return group_->rank; }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name; }

  [[nodiscard]] Event all_gather(at::Tensor full, at::Tensor slice, Stream&) override;
  [[nodiscard]] Event all_to_all(at::Tensor out, at::Tensor in, Stream&) override;
  [[nodiscard]] Event reduce_scatter(at::Tensor slice, at::Tensor full, Stream&) override;
  [[nodiscard]] Event all_reduce(at::Tensor, Reduce, Stream&) override;
  [[nodiscard]] Event broadcast(at::Tensor, int root, Stream&) override;
  [[nodiscard]] Event send(at::Tensor, int to, Stream&) override;
  [[nodiscard]] Event receive(at::Tensor, int from, Stream&) override;
  void barrier() override;
  void progress() override;
  [[nodiscard]] Event exchange(at::Tensor out, const std::vector<at::Tensor>& sent, Stream&) override;
  [[nodiscard]] at::Tensor shared_memory(int64_t bytes, at::Device) override;
  int64_t reserve_messages(int64_t bytes, bool receives) override;

 private:
  [[nodiscard]] Call next(const char* kind, const at::Tensor&);  // undefined: no bytes
  [[nodiscard]] Event all_reduce_at_once(const at::Tensor&, Reduce);
  [[nodiscard]] Event all_reduce_in_parts(const at::Tensor&, Reduce);

  std::shared_ptr<Operations> operations_;
  std::shared_ptr<const Group> group_;
  int64_t calls_ = 0;                             // collectives so far
  std::vector<int64_t> sent_to_, received_from_;  // messages so far, by peer
};

}  // namespace partita::internal
