// A collective under way: stages of messages, each posted when the messages of the one before have all arrived.
//
//   auto operation = operations.start({&group, "broadcast", sequence, bytes}, {
//       [=](Operation& o) { o.receive(parent, buffer); },     // each stage posts transfers or computes
//       [=](Operation& o) { for (int child : children) o.send(child, buffer); }});
//   ...
//   operation->wait();
//
// Waiting for one operation moves all of them on: a peer may need the second stage of another one first.
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

// The ranks of a communicator, as all of its collectives need them.
struct Group {
  std::string name;
  int rank = 0;                    // of this process, in the group
  std::vector<int> ranks;          // of the job, by rank in the group
  std::vector<uint32_t> channels;  // with each member: which of the groups shared with it this one is
  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
};

// Names a collective in messages: "dp.all_gather #17"; a message between two ranks: "pp.send #3 with rank 1".
struct Call {
  std::shared_ptr<const Group> group;
  const char* kind = "";
  int64_t number = 0;  // counts from 0 in its group (send, receive: from 0 with their peer)
  int64_t bytes = 0;
  int peer = -1;  // send, receive: the other rank, in the group
  [[nodiscard]] std::string text() const;
};

// Uninitialised memory.
struct Scratch {
  std::unique_ptr<std::byte[]> memory;
  size_t bytes = 0;
};

class Operations;

class Operation final : public EventState, public std::enable_shared_from_this<Operation> {
 public:
  using Stage = std::function<void(Operation&)>;
  Operation(Operations& owner, Call call, std::vector<Stage> stages);

  // For stages. `member`: rank in the group, not this one. The bytes stay in place until the stage is over.
  void send(int member, std::span<const std::byte>);
  void receive(int member, std::span<std::byte>);
  // Memory that lives as long as the operation, from the pool of all operations. Not initialised.
  [[nodiscard]] std::span<std::byte> scratch(size_t bytes);

  [[nodiscard]] const Call& call() const { return call_; }
  // Moves it on by what has arrived; true when it is over.
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

// All operations of the process that are not over yet, and the transport they use.
class Operations : public std::enable_shared_from_this<Operations> {
 public:
  Operations(std::unique_ptr<Transport> transport, std::chrono::milliseconds timeout);

  [[nodiscard]] Event start(Call, std::vector<Operation::Stage>);
  // Moves everything on. Errors: of the operation that failed, or of a peer that died.
  void progress();
  // Until `operation` is over. Errors: after the timeout, which ranks did not arrive.
  void wait(Operation& operation);

  // Orderly end: finishes what is under way. Errors: of what is under way, or of a peer that does not come to its end.
  void close();

  [[nodiscard]] Transport& transport() { return *transport_; }

 private:
  friend class Operation;
  // Errors of the connection name the operation that is wanted.
  void progress(const Operation& wanted);
  [[nodiscard]] Scratch take_scratch(size_t bytes);

  std::unique_ptr<Transport> transport_;
  std::chrono::milliseconds timeout_;
  std::vector<std::shared_ptr<Operation>> active_;
  // The job ends with them. Until then the transport, which tells the other ranks why, may still use their memory.
  std::vector<std::shared_ptr<Operation>> failed_;
  std::vector<Scratch> free_scratch_;  // kept: fresh pages cost more than the sums made in them
};

}  // namespace partita::internal
