// Deferred messages of an NcclCommunicator, which are posted as one NCCL group.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/comm/cuda/nccl_communicator.h"

namespace partita::internal {

class NcclCommunicator::Messages : public std::enable_shared_from_this<NcclCommunicator::Messages> {
 public:
  explicit Messages(NcclCommunicator& owner) : owner_(&owner) {}
  // The owner is gone: nothing can be posted from now on.
  void close() { owner_ = nullptr; }

  Event add(bool sends, at::Tensor tensor, int peer, const Watchdog::Call& call) {
    if (!batch_) batch_ = std::make_shared<Batch>();
    waiting_.push_back({sends, std::move(tensor), peer, call});
    return Event(std::make_shared<MessageEvent>(shared_from_this(), batch_));
  }

  void post() {
    if (waiting_.empty()) return;
    PARTITA_CHECK(owner_ != nullptr, "a message is waited for after its communicator");
    NcclCommunicator& o = *owner_;
    o.watchdog_->check();
    {
      const Watchdog::Posting posting(o.watchdog_.get(), waiting_.front().call);
      const std::lock_guard lock(o.mutex_);
      o.check(ncclGroupStart(), "send");
      for (const Message& m : waiting_)
        o.check(m.sends ? ncclSend(m.tensor.mutable_data_ptr(), m.tensor.nbytes(), ncclUint8, m.peer, o.comm_,
                                   o.stream_.stream())
                        : ncclRecv(m.tensor.mutable_data_ptr(), m.tensor.nbytes(), ncclUint8, m.peer, o.comm_,
                                   o.stream_.stream()),
                m.call.kind);
      o.check(ncclGroupEnd(), "send");
    }
    batch_->end = o.finish(waiting_.front().call);
    batch_.reset();
    waiting_.clear();
  }

 private:
  struct Batch {
    std::shared_ptr<CudaEventState> end;  // null: not yet posted
  };
  struct Message {
    bool sends;
    at::Tensor tensor;
    int peer;
    Watchdog::Call call;
  };
  class MessageEvent final : public DeviceEvent {
   public:
    MessageEvent(std::shared_ptr<Messages> messages, std::shared_ptr<Batch> batch)
        : messages_(std::move(messages)), batch_(std::move(batch)) {}
    bool test() override { return posted().test(); }
    void wait() override { posted().wait(); }
    void order(cudaStream_t stream) override { posted().order(stream); }

   private:
    CudaEventState& posted() {
      if (!batch_->end) messages_->post();
      return *batch_->end;
    }
    std::shared_ptr<Messages> messages_;
    std::shared_ptr<Batch> batch_;
  };

  NcclCommunicator* owner_;
  std::vector<Message> waiting_;
  std::shared_ptr<Batch> batch_;
};

}  // namespace partita::internal
