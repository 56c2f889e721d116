// A TCP connection to one rank: queued outgoing messages, posted receives, and early messages not yet received.
// Non-blocking: the transport calls read() and write() when the socket is ready.
//
//   TcpPeer peer(3, "rank 3 (process 4711 on node7)", std::move(socket));
//   auto sent = peer.send({channel, 0}, bytes);
//   auto got = peer.receive({channel, 0}, buffer);
//   while (!got->done) { ...poll...; peer.read(letters); }
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/comm/socket.h"
#include "partita/comm/transport.h"

namespace partita::internal {

class TcpPeer {
 public:
  // State of one message. If `error` is set, the message is lost.
  struct State {
    bool done = false;
    std::string error;
  };

  // `name`: for error messages. An empty socket represents this rank itself.
  TcpPeer(int rank, std::string name, Socket socket);

  [[nodiscard]] const Socket& socket() const { return socket_; }
  [[nodiscard]] bool sending() const { return !outgoing_.empty(); }
  // It said goodbye, or is this rank itself: nothing more will arrive.
  [[nodiscard]] bool finished() const { return goodbye_ || !socket_; }
  // The reason it gave for ending the job, if any: the peer may be gone by now without being the cause.
  [[nodiscard]] const std::string& cause() const { return cause_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  std::shared_ptr<State> send(Tag tag, std::span<const std::byte> bytes);
  std::shared_ptr<State> receive(Tag tag, std::span<std::byte> bytes);
  void send_letter(std::string text);
  void send_goodbye();
  void send_cause(std::string text);
  // Stops all sending and reading.
  void disconnect();

  // Transfers as much as the socket allows now; read() appends received letters. Errors: Interrupted if the rank died,
  // or finished although a message from it is expected.
  void write();
  void read(std::deque<Transport::Letter>& letters);

 private:
  struct Header {
    Tag tag;
    uint64_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    std::span<const std::byte> bytes;
    std::shared_ptr<State> state;
    std::string owned;  // bytes of a letter
    size_t sent = 0;    // including the header
  };
  struct Awaited {
    Tag tag;
    std::span<std::byte> bytes;
    std::shared_ptr<State> state;
  };
  // A partially received message, or a complete one that is not yet expected.
  struct Incoming {
    Header header;
    size_t got = 0;
    std::byte* target = nullptr;   // destination: the receiver's buffer, or `own`
    std::shared_ptr<State> state;  // of the receiver, or null
    std::unique_ptr<std::byte[]> own;
  };

  std::shared_ptr<State> enqueue(Outgoing out);
  void unpack(std::deque<Transport::Letter>& letters);
  void begin(const Header& header);
  void arrived(std::deque<Transport::Letter>& letters);
  // False, with an error for the receiver, if the message has an unexpected length.
  bool fits(const Awaited& awaited, uint64_t bytes) const;
  [[noreturn]] void died() const;
  [[noreturn]] void left() const;

  int rank_;
  std::string name_;
  Socket socket_;
  bool goodbye_ = false;
  std::string cause_;
  std::deque<Outgoing> outgoing_;
  std::deque<Awaited> awaited_;
  std::deque<Incoming> early_;
  bool arriving_ = false;
  Incoming incoming_;               // valid while arriving_
  std::vector<std::byte> staging_;  // headers, and small messages received with them
  size_t staged_ = 0;
};

}  // namespace partita::internal
