// A collective in progress: stages of messages, each started when all messages of the previous stage have arrived.
//
//   auto operation = operations.start({&group, "broadcast", sequence, bytes}, {
//       [=](Operation& o) { o.receive(parent, buffer); },     // each stage posts transfers or computes
//       [=](Operation& o) { for (int child : children) o.send(child, buffer); }});
//   ...
//   operation->wait();
//
// Waiting for one operation drives all of them: a peer may first need the second stage of another.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/comm/transport.h"
#include "partita/device/stream.h"

namespace partita::internal {

// A communicator's ranks, shared by all of its collectives.
struct Group {
  std::string name;
  int rank = 0;                    // of this process within the group
  std::vector<int> ranks;          // job ranks, by rank in the group
  std::vector<uint32_t> channels;  // per member: index of this group among the groups shared with it
  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
};

// A collective, or a point-to-point message; text() identifies it in error messages (comm/call_text.h).
struct Call {
  std::shared_ptr<const Group> group;
  const char* kind = "";
  int64_t number = 0;  // counts from 0 per group (send, receive: per peer)
  int64_t bytes = 0;
  int peer = -1;  // send, receive: the other rank, in the group
  [[nodiscard]] std::string text() const;
};

// Uninitialized memory.
struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  size_t bytes = 0;
};

class Operations;

class Operation final : public EventState, public std::enable_shared_from_this<Operation> {
 public:
  using Stage = std::function<void(Operation&)>;
  Operation(Operations& owner, Call call, std::vector<Stage> stages);

  // For stages. `member`: another rank of the group. The bytes must stay in place until the stage ends.
  void send(int member, std::span<const std::byte>);
  void receive(int member, std::span<std::byte>);
  // Uninitialized memory from a shared pool, valid as long as the operation.
  [[nodiscard]] std::span<std::byte> scratch(size_t bytes);

  [[nodiscard]] const Call& call() const { return call_; }
  // Processes what has arrived; true when complete.
  bool advance();

  bool test() override;
  void wait() override;

 private:
  [[nodiscard]] Tag tag(int member) const;

  std::shared_ptr<Operations> owner_;
  Call call_;
  std::vector<Stage> stages_;
  size_t next_stage_ = 0;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Scratch> scratch_;
  std::exception_ptr error_;
  bool done_ = false;
};

// All unfinished operations of the process, and their transport.
class Operations : public std::enable_shared_from_this<Operations> {
 public:
  Operations(std::unique_ptr<Transport> transport, std::chrono::milliseconds timeout);

  [[nodiscard]] Event start(Call, std::vector<Operation::Stage>);
  // Drives all operations. Errors: of the operation that failed, or of a peer that died.
  void progress();
  // Blocks until `operation` is complete. Errors: after the timeout, the ranks that did not arrive.
  void wait(Operation& operation);

  // Orderly shutdown: finishes pending operations. Errors: of these operations, or of a peer that does not shut down.
  void close();

  [[nodiscard]] Transport& transport() { return *transport_; }

 private:
  friend class Operation;
  // Connection errors name the operation `wanted`.
  void progress(const Operation& wanted);
  [[nodiscard]] Scratch take_scratch(size_t bytes);

  std::unique_ptr<Transport> transport_;
  std::chrono::milliseconds timeout_;
  std::vector<std::shared_ptr<Operation>> active_;
  // Kept until the job ends: the transport, while telling the other ranks why, may still use their memory.
  std::vector<std::shared_ptr<Operation>> failed_;
  std::vector<Scratch> free_scratch_;  // reused: fresh pages cost more than the sums computed in them
};

}  // namespace partita::internal
