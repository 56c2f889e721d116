#include "partita/comm/rendezvous.h"

#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "partita/base/error.h"
#include "partita/base/random.h"

namespace partita {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kPorts = 16;                          // that rank 0 may take
constexpr auto kGreetWithin = 5s;                   // of a stranger that says nothing
constexpr auto kConnectWithin = 2s;                 // before the next address is tried
constexpr auto kRetryEvery = 50ms;                  // while rank 0 is not up
constexpr uint64_t kProtocol = 0x5041525449544131;  // "PARTITA1"

// Who listens speaks first, then who connected. All fields in the order of this machine: the ranks run one program.
struct Greeting {
  uint64_t protocol = kProtocol, job = 0;
};
struct Hello {
  int32_t rank = 0, size = 0, port = 0, unused = 0;
};
// Where a rank listens. No address: on the host of rank 0, whose address each rank knows in its own way.
struct Place {
  std::array<char, 60> address{};
  int32_t port = 0;
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

class Meeting {
 public:
  Meeting(const Launch& launch, Deadline deadline)
      : launch_(launch),
        deadline_(deadline),
        greeting_{.job = hash_of(static_cast<uint64_t>(launch.size), launch.job)},
        peers_(static_cast<size_t>(launch.size)) {}

  std::vector<Socket> run() {
    if (launch_.rank == 0)
      gather();
    else
      join();
    return std::move(peers_);
  }

 private:
  [[nodiscard]] Deadline soon(Clock::duration within) const { return std::min(deadline_, Clock::now() + within); }

  // Rank 0.
  void gather() {
    const Socket listening = listen_on_master_port();
    std::vector<Place> places(peers_.size());
    accept_peers(listening, 1, &places);
    for (size_t r = 1; r < peers_.size(); ++r)
      if (!send_all(peers_[r], std::as_bytes(std::span(places)), deadline_)) lost(static_cast<int>(r));
  }

  Socket listen_on_master_port() const {
    for (int port = launch_.master_port; port < launch_.master_port + kPorts && port < 65536; ++port)
      if (auto listening = listen_on(port)) return std::move(*listening);
    fail("ports {} to {} are all taken on this host: set MASTER_PORT to a free one", launch_.master_port,
         launch_.master_port + kPorts - 1);
  }

  // Until all ranks from `first` on have come.
  void accept_peers(const Socket& listening, int first, std::vector<Place>* places) {
    for (int missing = launch_.size - first; missing > 0;) {
      auto peer = accept_from(listening, deadline_);
      if (!peer) {
        std::vector<int> absent;
        for (int r = first; r < launch_.size; ++r)
          if (!peers_[static_cast<size_t>(r)]) absent.push_back(r);
        fail("rank {}: of {} ranks these did not connect in time: {}", launch_.rank, launch_.size,
             fmt::join(absent, ", "));
      }
      Hello hello;
      Greeting mine = greeting_;
      if (!send_all(*peer, bytes_of(mine), soon(kGreetWithin)) ||
          !receive_all(*peer, bytes_of(hello), soon(kGreetWithin)))
        continue;  // not one of ours
      if (hello.size != launch_.size || hello.rank < first || hello.rank >= launch_.size) continue;
      const auto r = static_cast<size_t>(hello.rank);
      if (peers_[r]) fail("two processes say they are rank {}: give each its own", hello.rank);
      if (places) {
        const std::string address = peer_address(*peer);
        if (!is_loopback(address)) address.copy((*places)[r].address.data(), (*places)[r].address.size() - 1);
        (*places)[r].port = hello.port;
      }
      peers_[r] = std::move(*peer);
      --missing;
    }
  }

  // The other ranks.
  void join() {
    const auto listening = listen_on(0);
    if (!listening) fail("no free port on this host");
    const Hello hello{launch_.rank, launch_.size, port_of(*listening)};
    const std::string host = find_master(hello);
    std::vector<Place> places(peers_.size());
    if (!receive_all(peers_[0], std::as_writable_bytes(std::span(places)), deadline_)) lost(0);
    for (int r = 1; r < launch_.rank; ++r) {
      const Place& place = places[static_cast<size_t>(r)];
      const std::string address = place.address[0] == 0 ? host : place.address.data();
      if (greet(address, place.port, hello, peers_[static_cast<size_t>(r)], deadline_) != Connect::connected)
        fail("rank {} cannot connect to rank {} at {} port {}: is a firewall between the hosts?", launch_.rank, r,
             address, place.port);
    }
    accept_peers(*listening, launch_.rank + 1, nullptr);
  }

  // Connects to rank 0; the host at which it was found.
  std::string find_master(const Hello& hello) {
    while (true) {
      for (const std::string& host : {launch_.master_address, launch_.master_fallback})
        for (int port = launch_.master_port; !host.empty() && port < launch_.master_port + kPorts; ++port) {
          const Connect result = greet(host, port, hello, peers_[0], soon(kConnectWithin));
          if (result == Connect::connected) return host;
          if (result == Connect::unreachable) break;
        }
      if (Clock::now() > deadline_)
        fail("rank {} did not find rank 0 at {} port {}: is it running, and is MASTER_ADDR its host?", launch_.rank,
             launch_.master_address, launch_.master_port);
      std::this_thread::sleep_for(kRetryEvery);
    }
  }

  // `refused` also when the one who listens is not of this job.
  Connect greet(const std::string& host, int port, Hello hello, Socket& peer, Deadline deadline) const {
    Socket socket;
    const Connect result = connect_to(host, port, deadline, socket);
    if (result != Connect::connected) return result;
    Greeting theirs;
    if (!receive_all(socket, bytes_of(theirs), deadline) || theirs.protocol != kProtocol ||
        theirs.job != greeting_.job || !send_all(socket, bytes_of(hello), deadline))
      return Connect::refused;
    peer = std::move(socket);
    return Connect::connected;
  }

  [[noreturn]] void lost(int peer) const {
    fail("rank {}: rank {} ended while the ranks were meeting, or did not answer in time", launch_.rank, peer);
  }

  const Launch& launch_;
  Deadline deadline_;
  Greeting greeting_;
  std::vector<Socket> peers_;
};

}  // namespace

std::vector<Socket> meet(const Launch& launch, Deadline deadline) { return Meeting(launch, deadline).run(); }

}  // namespace partita
