// TCP sockets with deadlines, for the rendezvous of ranks.
//
//   auto listening = listen_on("127.0.0.1", 0);                  // any free port; see port_of(*listening)
//   connect_to(resolve("node1").front(), 29500, deadline, to_peer);
//   send_all(to_peer, bytes, deadline);
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace partita::internal {

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

// Addresses are numeric: "127.0.0.1", "::1", "fe80::1%eth0".
[[nodiscard]] std::vector<std::string> resolve(const std::string& host);  // empty: the name does not resolve
[[nodiscard]] std::vector<std::string> own_addresses();                   // of this host's interfaces
[[nodiscard]] bool is_loopback(const std::string& address);

// Listens on an address of this host, or on all if empty; port 0 picks a free one. nullopt if the port is in use. All
// sockets of this file are non-blocking and not inherited by child processes.
[[nodiscard]] std::optional<Socket> listen_on(const std::string& address, int port);
[[nodiscard]] int port_of(const Socket& listening);

// nullopt if no connection is pending.
[[nodiscard]] std::optional<Socket> accept_from(const Socket& listening);
// The two ends of a connection.
[[nodiscard]] std::string peer_address(const Socket& connected);
[[nodiscard]] std::string local_address(const Socket& connected);
// Whether the other end closed the connection or is gone. Data sent before can still be read.
[[nodiscard]] bool is_closed(const Socket& connected);

// refused: the host is up, but nothing listens on the port.
enum class Connect { connected, refused, unreachable };
[[nodiscard]] Connect connect_to(const std::string& address, int port, Deadline deadline, Socket& connected);

// False if the other end closed the connection or the deadline passed.
[[nodiscard]] bool send_all(const Socket& to, std::span<const std::byte> bytes, Deadline deadline);
[[nodiscard]] bool receive_all(const Socket& from, std::span<std::byte> bytes, Deadline deadline);

}  // namespace partita::internal
