#include "partita/comm/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr int kBacklog = 1024;

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);  // only tunes: failing costs no correctness
}

// Small messages go out at once; a host that vanished is noticed within half a minute.
void tune(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Socket make(int family) { return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

// False when the deadline has passed.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{socket.descriptor(), events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000)));
    if (ready > 0) return true;
    if (ready == 0 && left.count() <= 0) return false;
    if (ready < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
  }
}

// "::ffff:10.0.0.1", an IPv4 peer seen by an IPv6 socket, is 10.0.0.1.
std::string plain(std::string address) {
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) && address.find('.') != std::string::npos ? address.substr(kMapped.size())
                                                                                : address;
}

template <class Move>
bool move_all(const Socket& socket, size_t bytes, short events, Deadline deadline, Move move) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t moved = move(done, bytes - done);
    if (moved > 0) {
      done += static_cast<size_t>(moved);
    } else if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(socket, events, deadline)) return false;
    } else if (moved == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::optional<Socket> listen_on(int port) {
  // One IPv6 socket serves IPv4 too; hosts without IPv6 get an IPv4 one.
  for (int family : {AF_INET6, AF_INET}) {
    Socket socket = make(family);
    if (!socket) continue;
    set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a port that a run used a moment ago
    int bound = -1;
    if (family == AF_INET6) {
      set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      sockaddr_in6 any{};
      any.sin6_family = AF_INET6;
      any.sin6_addr = in6addr_any;
      any.sin6_port = htons(static_cast<uint16_t>(port));
      bound = bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    } else {
      sockaddr_in any{};
      any.sin_family = AF_INET;
      any.sin_addr.s_addr = htonl(INADDR_ANY);
      any.sin_port = htons(static_cast<uint16_t>(port));
      bound = bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
    }
    if (bound == 0 && listen(socket.descriptor(), kBacklog) == 0) return socket;
    if (errno == EADDRINUSE) return {};
    if (errno == EACCES) fail("port {}: this user may not listen there: choose one above 1023", port);
  }
  fail("cannot listen on port {}: {}", port, std::strerror(errno));
}

int port_of(const Socket& listening) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("getsockname: {}", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::optional<Socket> accept_from(const Socket& listening, Deadline deadline) {
  while (wait_for(listening, POLLIN, deadline)) {
    Socket accepted(accept4(listening.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted) {
      tune(accepted);
      return accepted;
    }
    if (errno == EMFILE || errno == ENFILE)
      fail("accept: {}: raise the limit of open files (ulimit -n)", std::strerror(errno));
  }
  return {};
}

std::string peer_address(const Socket& connected) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char text[NI_MAXHOST] = "";
  if (getpeername(connected.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return plain(text);
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Connect connect_to(const std::string& host, int port, Deadline deadline, Socket& connected) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return Connect::unreachable;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  Connect result = Connect::unreachable;
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    Socket socket = make(address->ai_family);
    if (!socket) continue;
    int error = connect(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!wait_for(socket, POLLOUT, deadline)) continue;
      socklen_t length = sizeof error;
      getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0) {
      tune(socket);
      connected = std::move(socket);
      return Connect::connected;
    }
    if (error == ECONNREFUSED) result = Connect::refused;
  }
  return result;
}

bool send_all(const Socket& to, std::span<const std::byte> bytes, Deadline deadline) {
  return move_all(to, bytes.size(), POLLOUT, deadline,
                  [&](size_t at, size_t n) { return send(to.descriptor(), bytes.data() + at, n, MSG_NOSIGNAL); });
}

bool receive_all(const Socket& from, std::span<std::byte> bytes, Deadline deadline) {
  return move_all(from, bytes.size(), POLLIN, deadline,
                  [&](size_t at, size_t n) { return recv(from.descriptor(), bytes.data() + at, n, 0); });
}

}  // namespace partita
