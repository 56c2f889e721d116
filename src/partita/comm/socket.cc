#include "partita/comm/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
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

namespace partita::internal {
namespace {

constexpr int kBacklog = 1024;

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);  // tuning only: failure is harmless
}

// Small messages are sent immediately; a vanished host is noticed within half a minute.
void tune(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Socket make(int family) { return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

// False if the deadline has passed.
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

// "::ffff:10.0.0.1", an IPv4 peer of an IPv6 socket, becomes 10.0.0.1.
std::string plain(std::string address) {
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) && address.find('.') != std::string::npos ? address.substr(kMapped.size())
                                                                                : address;
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

template <class Get>
std::string address_of(const Socket& socket, Get get) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (get(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return plain(numeric(reinterpret_cast<const sockaddr*>(&address), length));
}

// Stops when `visit` returns true. Preserves errno of the last visit.
template <class Visit>
void for_each_address(const std::string& host, int port, int flags, Visit visit) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) {
    errno = EADDRNOTAVAIL;
    return;
  }
  const addrinfo* entry = list;
  while (entry != nullptr && !visit(*entry)) entry = entry->ai_next;
  const int error = errno;
  freeaddrinfo(list);
  errno = error;
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

std::vector<std::string> resolve(const std::string& host) {
  std::vector<std::string> addresses;
  for_each_address(host, 0, 0, [&](const addrinfo& entry) {
    const std::string address = plain(numeric(entry.ai_addr, entry.ai_addrlen));
    if (std::ranges::count(addresses, address) == 0) addresses.push_back(address);
    return false;
  });
  return addresses;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const bool four = entry->ifa_addr->sa_family == AF_INET;
    if (four || entry->ifa_addr->sa_family == AF_INET6)
      addresses.push_back(numeric(entry->ifa_addr, four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
  }
  return addresses;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::optional<Socket> listen_on(const std::string& address, int port) {
  // An IPv6 socket serves all addresses, including IPv4; hosts without IPv6 get an IPv4 socket.
  const std::vector<std::string> tried =
      address.empty() ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector<std::string>{address};
  for (const std::string& where : tried) {
    Socket listening;
    for_each_address(where, port, AI_NUMERICHOST | AI_PASSIVE, [&](const addrinfo& entry) {
      Socket socket = make(entry.ai_family);
      if (!socket) return false;
      set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // reuse ports that a run has just released
      if (entry.ai_family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, where == "::" ? 0 : 1);
      if (bind(socket.descriptor(), entry.ai_addr, entry.ai_addrlen) != 0 || listen(socket.descriptor(), kBacklog) != 0)
        return false;
      listening = std::move(socket);
      return true;
    });
    if (listening) return listening;
    if (errno == EADDRINUSE) return {};
    if (errno == EACCES) fail("port {}: this user may not listen there: choose one above 1023", port);
  }
  fail("cannot listen on {} port {}: {}", address.empty() ? "any address," : address, port, std::strerror(errno));
}

int port_of(const Socket& listening) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listening.descriptor(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("getsockname: {}", std::strerror(errno));
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::optional<Socket> accept_from(const Socket& listening) {
  Socket accepted(accept4(listening.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted) {
    tune(accepted);
    return accepted;
  }
  if (errno == EMFILE || errno == ENFILE)
    fail("accept: {}: raise the limit of open files (ulimit -n)", std::strerror(errno));
  return {};
}

std::string peer_address(const Socket& connected) { return address_of(connected, getpeername); }
std::string local_address(const Socket& connected) { return address_of(connected, getsockname); }

bool is_closed(const Socket& connected) {
  char byte = 0;
  const ssize_t got = recv(connected.descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

Connect connect_to(const std::string& address, int port, Deadline deadline, Socket& connected) {
  Connect result = Connect::unreachable;
  for_each_address(address, port, AI_NUMERICHOST, [&](const addrinfo& entry) {
    Socket socket = make(entry.ai_family);
    if (!socket) return false;
    int error = connect(socket.descriptor(), entry.ai_addr, entry.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && wait_for(socket, POLLOUT, deadline)) {
      socklen_t length = sizeof error;
      getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == ECONNREFUSED) result = Connect::refused;
    if (error != 0) return false;
    tune(socket);
    connected = std::move(socket);
    result = Connect::connected;
    return true;
  });
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

}  // namespace partita::internal
