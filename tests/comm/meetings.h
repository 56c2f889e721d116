// Ranks of a job over sockets, run as threads of a test, and unrelated processes that connect to them.
//
//   Job job(3);
//   auto zero = job.start(0), one = job.start(1);
//   Stranger stranger(job.port);
//   stranger.say("GET / HTTP/1.1\r\n\r\n");
//   EXPECT_EQ(zero.get().error, "");
#pragma once
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "partita/base/error.h"
#include "partita/comm/handshake.h"
#include "partita/comm/rendezvous.h"

namespace partita::internal {

inline Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

struct Met {
  Peers peers;
  std::string error;
};

struct Job {
  explicit Job(int ranks) : size(ranks), port(port_of(*listen_on("127.0.0.1", 0))) {}

  [[nodiscard]] Launch launch(int rank) const {
    return {.kind = Launch::Kind::torchrun,
            .rank = rank,
            .size = size,
            .hosts = hosts,
            .master_address = master,
            .master_port = port,
            .ports = ports,
            .agent_store = store,
            .job = name,
            .secret = secret};
  }
  [[nodiscard]] JobKey key() const { return job_key(launch(0), ""); }

  [[nodiscard]] std::future<Met> start(int rank, std::chrono::milliseconds timeout = std::chrono::seconds(60)) const {
    return std::async(std::launch::async, [launch = launch(rank), timeout]() -> Met {
      try {
        return {meet(launch, in(timeout)), ""};
      } catch (const Error& error) {
        return {{}, error.what()};
      }
    });
  }

  int size, port, ports = 1;
  std::string name = "torchrun none attempt 0", secret, master = "127.0.0.1";
  Launch::Hosts hosts = Launch::Hosts::one;
  bool store = false;
};

// Each message that rank `from` sends over these connections is what rank `to` reads: they are the two ends of one.
inline bool joined(const std::vector<Peers>& ranks) {
  const auto size = ranks.size();
  for (size_t from = 0; from < size; ++from)
    for (size_t to = 0; to < size; ++to) {
      if (from == to) continue;
      const std::byte sent{static_cast<unsigned char>(16 * from + to)};
      std::byte got{};
      if (!send_all(ranks[from].sockets[to], {&sent, 1}, in(std::chrono::seconds(10))) ||
          !receive_all(ranks[to].sockets[from], {&got, 1}, in(std::chrono::seconds(10))) || got != sent)
        return false;
    }
  return true;
}

class Stranger {
 public:
  // Waits until somebody listens there.
  explicit Stranger(int port, const std::string& address = "127.0.0.1") {
    for (int i = 0; i < 2000 && connect_to(address, port, in(std::chrono::seconds(5)), socket_) != Connect::connected;
         ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  void say(std::span<const std::byte> bytes) { (void)send_all(socket_, bytes, in(std::chrono::seconds(5))); }
  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }
  template <class Message>
  requires std::is_trivially_copyable_v<Message>
  void say(const Message& message) { say(std::as_bytes(std::span(&message, 1))); }
  template <class Message>
  bool hear(Message& message) {
    return receive_all(socket_, std::as_writable_bytes(std::span(&message, 1)), in(std::chrono::seconds(20)));
  }
  // The other end closed the connection without another word.
  bool dropped() {
    std::byte byte{};
    return !receive_all(socket_, {&byte, 1}, in(std::chrono::seconds(20))) && is_closed(socket_);
  }
  [[nodiscard]] const Socket& socket() const { return socket_; }
  void leave() { socket_.close(); }

 private:
  Socket socket_;
};

}  // namespace partita::internal
