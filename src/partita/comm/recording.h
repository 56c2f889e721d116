// A Communicator that records the calls made to it: for tests that count collectives, and for dry runs of any size in
// one process.
//
//   RecordingCommunicator dp("dp", 0, 8);              // standalone: rank 0 of 8 imaginary ranks
//   RecordingCommunicator counted(mesh.data());        // forwards to a real one
//   engine.step(batches, input);
//   EXPECT_EQ(counted.count("all_gather"), plan.gathers);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"

namespace partita::internal {

// One call. `bytes`: total size of `full`, `in` or the tensor.
struct CollectiveRecord {
  std::string kind;  // name of the method, such as "all_gather"
  int64_t bytes = 0;
  at::ScalarType dtype = at::kByte;  // of the data sent
  int peer = -1;                     // broadcast: the root; send, receive: the other rank
  friend bool operator==(const CollectiveRecord&, const CollectiveRecord&) = default;
};

class RecordingCommunicator final : public Communicator {
 public:
  // Forwards every call to `inner`, which must outlive this object.
  explicit RecordingCommunicator(Communicator& inner) : inner_(&inner) {}
  // Standalone: completes immediately, as if every rank had passed this rank's data: a gather repeats the slice, a sum
  // multiplies by size, and a received tensor is left unchanged.
  RecordingCommunicator(std::string name, int rank, int size);
  // Not copyable: wrapping a RecordingCommunicator must not copy it by accident.
  RecordingCommunicator(const RecordingCommunicator&) = delete;
  RecordingCommunicator& operator=(const RecordingCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return inner_ ? inner_->rank() : rank_; }
  [[nodiscard]] int size() const override { return inner_ ? inner_->size() : size_; }
  [[nodiscard]] const std::string& name() const override { return inner_ ? inner_->name() : name_; }

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
  void progress() override;

  [[nodiscard]] const std::vector<CollectiveRecord>& records() const { return records_; }
  [[nodiscard]] int64_t count(const std::string& kind) const;  // calls of this kind
  [[nodiscard]] int64_t bytes(const std::string& kind) const;  // their total bytes
  void clear() { records_.clear(); }

 private:
  Communicator* inner_ = nullptr;
  std::string name_;
  int rank_ = 0, size_ = 1;
  std::vector<CollectiveRecord> records_;
};

}  // namespace partita::internal
