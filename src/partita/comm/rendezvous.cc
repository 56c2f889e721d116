#include "partita/comm/rendezvous.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <thread>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/meeting_place.h"
#include "partita/comm/reception.h"
#include "partita/comm/torchrun_store.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kConnectWithin = 2s;                             // then the next address is tried
constexpr auto kGreetWithin = 5s;                               // of a listening process
constexpr auto kRetryEvery = 50ms, kRetryAtLeastEvery = 500ms;  // until rank 0 is up
constexpr auto kPortFreeWithin = 5s;                            // an earlier attempt may still be shutting down
constexpr auto kRankZeroFirst = 10s;                            // rank 0 gives up this much earlier than the others

// Where a rank listens. Empty address: on the host of rank 0, whose address every rank knows on its own.
struct Place {
  std::array<char, 60> address{};
  int32_t port = 0;
};

// Listens at these addresses; only the first is required, since a host may lack IPv6. Empty if the port is taken.
std::vector<Socket> listen_at(const std::vector<std::string>& addresses, int port) {
  std::vector<Socket> sockets;
  auto first = listen_on(addresses.front(), port);
  if (!first) return sockets;
  sockets.push_back(std::move(*first));
  port = port_of(sockets.front());
  for (size_t i = 1; i < addresses.size(); ++i) try {
      if (auto more = listen_on(addresses[i], port)) sockets.push_back(std::move(*more));
    } catch (const Error&) {
      // the first address suffices
    }
  return sockets;
}

class Meeting {
 public:
  Meeting(const Launch& launch, Deadline deadline)
      : launch_(launch), begin_(Clock::now()), deadline_(deadline), peers_(static_cast<size_t>(launch.size)) {
    if (launch.agent_store) store_ = std::make_unique<TorchrunStore>(launch, deadline);
  }

  Peers run() {
    if (launch_.rank == 0)
      gather();
    else
      join();
    Peers met;
    for (Peer& peer : peers_) {
      met.sockets.push_back(std::move(peer.socket));
      met.names.push_back(peer.name);
    }
    return met;
  }

 private:
  struct Peer {
    Socket socket;
    std::string name;
  };
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  [[nodiscard]] Deadline soon(Clock::duration within) const {
    return std::min<Deadline>(deadline_, Clock::now() + within);
  }
  [[nodiscard]] int64_t waited() const {
    return std::chrono::round<std::chrono::seconds>(Clock::now() - begin_).count();
  }

  // Runs on rank 0.
  void gather() {
    const std::vector<std::string> addresses =
        listening_addresses(launch_, resolve(launch_.master_address), own_addresses());
    std::vector<Socket> listening = store_ ? listen_at(addresses, 0) : listen_on_master_port(addresses);
    if (listening.empty()) fail("rank 0 found no free port on this host");
    const int port = port_of(listening.front());
    where_ = fmt::format(
        "{} port {}", addresses.front().empty() ? "all addresses," : fmt::to_string(fmt::join(addresses, ", ")), port);
    key_ = job_key(launch_, store_ ? publish(port) : "");
    Reception reception(std::move(listening), key_, own_identity(0, launch_.size, port));
    std::vector<Place> places(peers_.size());
    receive_ranks(reception, 1, &places);
    for (int r = 1; r < launch_.size; ++r)
      if (!send_all(peer(r).socket, std::as_bytes(std::span(places)), deadline_ + kRankZeroFirst)) lost(r);
  }

  std::vector<Socket> listen_on_master_port(const std::vector<std::string>& addresses) const {
    const int first = launch_.master_port, last = std::min(first + launch_.ports - 1, 65535);
    for (const Deadline until = soon(kPortFreeWithin); true; std::this_thread::sleep_for(kRetryEvery)) {
      for (int port = first; port <= last; ++port)
        if (auto listening = listen_at(addresses, port); !listening.empty()) return listening;
      if (Clock::now() > until) break;
    }
    if (first == last)
      fail("rank 0 cannot listen on MASTER_PORT {}: another process of this host does: set MASTER_PORT to a free port",
           first);
    fail("rank 0 cannot listen: ports {} to {} of this host are all taken", first, last);
  }

  std::string publish(int port) {
    Publication publication{.port = port, .secret = random_secret()};
    // The store's host is rank 0's, unless torchrun restarted without the node that it was started on.
    Socket to_store;
    if (launch_.hosts != Launch::Hosts::one)
      for (const std::string& address : resolve(launch_.master_address))
        if (connect_to(address, launch_.master_port, soon(kConnectWithin), to_store) == Connect::connected) break;
    if (to_store && !is_loopback(local_address(to_store))) publication.address = local_address(to_store);
    store_->publish(publication);
    return publication.secret;
  }

  // Waits until all ranks from `first` on have connected.
  void receive_ranks(Reception& reception, int first, std::vector<Place>* places) {
    const auto taken = [&](int rank) { return rank < first || peer(rank).socket; };
    for (int missing = launch_.size - first; missing > 0;) {
      auto guest = reception.next(deadline_, taken);
      if (!guest) {
        for (int r = 0; r < launch_.size; ++r)
          if (peer(r).socket && is_closed(peer(r).socket)) lost(r, first);
        if (Clock::now() >= deadline_) give_up(reception, first);
        continue;
      }
      const Identity& who = guest->who;
      if (guest->verdict == Verdict::taken)
        fail(
            "two processes claim to be rank {}: {} and {}: give each its own, and end what is left of an earlier "
            "attempt",
            who.rank, who.rank == launch_.rank ? "this one" : peer(who.rank).name, who.text());
      if (guest->verdict != Verdict::welcome) {  // it ends with a more specific error
        log::warn("rank {} turned away {} of {}, version {}: this job has {} ranks, version " PARTITA_VERSION,
                  launch_.rank, who.text(), who.size, who.version.data(), launch_.size);
        continue;
      }
      if (places) {
        Place& place = (*places)[static_cast<size_t>(who.rank)];
        const std::string address = peer_address(guest->socket);
        if (!is_loopback(address)) address.copy(place.address.data(), place.address.size() - 1);
        place.port = who.port;
      }
      peer(who.rank) = {std::move(guest->socket), who.text()};
      --missing;
    }
  }

  std::vector<int> absent(int first) {
    std::vector<int> ranks;
    for (int r = first; r < launch_.size; ++r)
      if (!peer(r).socket) ranks.push_back(r);
    return ranks;
  }

  [[noreturn]] void give_up(const Reception& reception, int first) {
    const int strangers = reception.strangers();
    fail("rank {} waited {} s at {} for the {} ranks of the job: these did not connect in time: {}{}", launch_.rank,
         waited(), where_, launch_.size, fmt::join(absent(first), ", "),
         strangers == 0 ? "" : fmt::format(" ({} connections of others were turned away)", strangers));
  }

  // Runs on all other ranks.
  void join() {
    const std::string host = find_rank_zero();
    Reception reception(std::move(listening_), key_, own_identity(launch_.rank, launch_.size, port_));
    std::vector<Place> places(peers_.size());
    // Rank 0 knows which ranks are missing, so it gives up first and reports them.
    if (!receive_all(peer(0).socket, std::as_writable_bytes(std::span(places)), deadline_ + kRankZeroFirst)) lost(0);
    for (int r = 1; r < launch_.rank; ++r) {
      const Place& place = places[static_cast<size_t>(r)];
      const std::string address = place.address[0] == 0 ? host : place.address.data();
      if (!join_at(address, place.port, r, deadline_))  // it may still be connecting to ranks below it
        fail("rank {} cannot connect to rank {} at {} port {}: is a firewall between the hosts?", launch_.rank, r,
             address, place.port);
    }
    receive_ranks(reception, launch_.rank + 1, nullptr);
  }

  // Connects to rank 0; returns the address at which it was found.
  std::string find_rank_zero() {
    for (auto pause = kRetryEvery; true; pause = std::min(2 * pause, kRetryAtLeastEvery)) {
      std::vector<std::string> addresses =
          launch_.hosts == Launch::Hosts::one ? kLoopback : resolve(launch_.master_address);
      if (!launch_.master_fallback.empty()) addresses.push_back(launch_.master_fallback);
      int first = launch_.master_port, ports = launch_.ports;
      if (store_) {  // read every time: the value may be from an attempt that has ended
        const Publication there = store_->read(deadline_);
        if (!there.address.empty()) addresses.insert(addresses.begin(), there.address);
        key_ = job_key(launch_, there.secret);
        first = there.port;
        ports = 1;
      } else {
        key_ = job_key(launch_, "");
      }
      for (const std::string& address : addresses)
        for (int port = first; port < first + ports && port < 65536; ++port)
          if (join_at(address, port, 0, soon(kGreetWithin))) return address;
      if (Clock::now() >= deadline_) not_found();
      std::this_thread::sleep_for(pause);
    }
  }

  [[noreturn]] void not_found() const {
    std::string seen = "is it running, and is MASTER_ADDR its host?";
    if (stranger_) seen = "the process that listens there is not part of this job, or has another PARTITA_JOB_KEY";
    if (other_version_) seen = "another version of this program listens there: install one version on all hosts";
    fail("rank {} did not find rank 0 at {} port {} within {} s: {}", launch_.rank, launch_.master_address,
         launch_.master_port, waited(), seen);
  }

  // Connects to a listening rank; false: nothing listens, or it is not of this job.
  bool join_at(const std::string& address, int port, int rank, Deadline deadline) {
    Socket socket;
    if (connect_to(address, port, soon(kConnectWithin), socket) != Connect::connected) return false;
    if (rank == 0) listen_where_seen(local_address(socket));
    Identity other;
    const GreetResult greeted = greet(socket, key_, own_identity(launch_.rank, launch_.size, port_), deadline, other);
    stranger_ = stranger_ || greeted == GreetResult::stranger;
    other_version_ = other_version_ || greeted == GreetResult::other_version;
    if (greeted != GreetResult::member || other.rank != rank) return false;
    peer(rank) = {std::move(socket), other.text()};
    return true;
  }

  // Listens at the address at which rank 0 sees this rank and which it announces to the others.
  void listen_where_seen(const std::string& local) {
    if (!listening_.empty() && local == local_) return;
    std::vector<std::string> addresses = {local};
    if (is_loopback(local))
      addresses = launch_.hosts == Launch::Hosts::several ? std::vector<std::string>{""} : kLoopback;
    listening_ = listen_at(addresses, 0);
    if (listening_.empty()) fail("rank {} found no free port on this host", launch_.rank);
    local_ = local;
    port_ = port_of(listening_.front());
    where_ = fmt::format("{} port {}", addresses.front().empty() ? "all addresses," : addresses.front(), port_);
  }

  // `first`: ranks from there on were expected.
  [[noreturn]] void lost(int rank, int first = kMostRanks) {
    const std::vector<int> others = absent(first);
    throw Interrupted(fmt::format("rank {}: {} ended, or did not answer, while the ranks were meeting{}", launch_.rank,
                                  peer(rank).name,
                                  others.empty() ? "" : fmt::format("; still missing: {}", fmt::join(others, ", "))));
  }

  const Launch& launch_;
  Clock::time_point begin_;
  Deadline deadline_;
  std::vector<Peer> peers_;
  std::unique_ptr<TorchrunStore> store_;
  JobKey key_{};
  std::vector<Socket> listening_;  // of ranks other than 0
  std::string local_;
  int port_ = 0;
  std::string where_;  // where this rank listens, for error messages
  bool stranger_ = false, other_version_ = false;
};

}  // namespace

Peers meet(const Launch& launch, Deadline deadline) { return Meeting(launch, deadline).run(); }

}  // namespace partita::internal
