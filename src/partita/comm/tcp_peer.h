// One TCP connection to one rank: messages queued to be sent, messages awaited, messages that came before they were
// awaited. Does not block: the transport calls read() and write() when the socket is ready.
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
  // Of one message. Once `error` is set the message is lost.
  struct State {
    bool done = false;
    std::string error;
  };

  // `name`: in messages. An empty socket stands for this rank itself.
  TcpPeer(int rank, std::string name, Socket socket);

  [[nodiscard]] const Socket& socket() const { return socket_; }
  [[nodiscard]] bool sending() const { return !outgoing_.empty(); }
  // It said goodbye, or is this rank itself: nothing more will come.
  [[nodiscard]] bool finished() const { return goodbye_ || !socket_; }
  // Why the job ends, if it has said so: it may be gone by the time that this rank looks, and is not the cause itself.
  [[nodiscard]] const std::string& cause() const { return cause_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  std::shared_ptr<State> send(Tag tag, std::span<const std::byte> bytes);
  std::shared_ptr<State> receive(Tag tag, std::span<std::byte> bytes);
  void send_letter(std::string text);
  void send_goodbye();
  void send_cause(std::string text);
  // Nothing is sent to it or read from it any more.
  void disconnect();

  // As much as the socket takes or gives now; letters that come are added. Errors: Interrupted when the rank died, or
  // finished although a message is awaited from it.
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
    std::string owned;  // the bytes of a letter
    size_t sent = 0;    // header included
  };
  struct Awaited {
    Tag tag;
    std::span<std::byte> bytes;
    std::shared_ptr<State> state;
  };
  // A message that has come in part, or whole before it was awaited.
  struct Incoming {
    Header header;
    size_t got = 0;
    std::byte* target = nullptr;   // where its bytes go: to who awaits it, or to `own`
    std::shared_ptr<State> state;  // of who awaits it, or none yet
    std::unique_ptr<std::byte[]> own;
  };

  std::shared_ptr<State> enqueue(Outgoing out);
  void unpack(std::deque<Transport::Letter>& letters);
  void begin(const Header& header);
  void arrived(std::deque<Transport::Letter>& letters);
  // False, and an error for who awaits it, if the message has another length.
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
  std::vector<std::byte> staging_;  // headers, and small messages that came with them
  size_t staged_ = 0;
};

}  // namespace partita::internal
