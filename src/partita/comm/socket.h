// TCP sockets with deadlines, for ranks that find and greet each other.
//
//   Socket listening = listen_on(0);                              // any free port: port_of(listening)
//   Socket to_peer = connect_to("node1", 29500, deadline);
//   send_all(to_peer, bytes, deadline);
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace partita {

using Deadline = std::chrono::steady_clock::time_point;

// Owns a file descriptor, or none.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { close(); }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

// Listens on all addresses of this host; port 0 takes a free one. Nothing if another socket listens there. All sockets
// of this file are non-blocking and are not inherited by child processes.
[[nodiscard]] std::optional<Socket> listen_on(int port);
[[nodiscard]] int port_of(const Socket& listening);

// Nothing if nobody came until the deadline.
[[nodiscard]] std::optional<Socket> accept_from(const Socket& listening, Deadline deadline);
// The numeric address of the other end.
[[nodiscard]] std::string peer_address(const Socket& connected);
[[nodiscard]] bool is_loopback(const std::string& address);

// How connecting ended: refused means that the host is there but nobody listens.
enum class Connect { connected, refused, unreachable };
[[nodiscard]] Connect connect_to(const std::string& host, int port, Deadline deadline, Socket& connected);

// False if the other end closed, or the deadline passed.
[[nodiscard]] bool send_all(const Socket& to, std::span<const std::byte> bytes, Deadline deadline);
[[nodiscard]] bool receive_all(const Socket& from, std::span<std::byte> bytes, Deadline deadline);

}  // namespace partita
