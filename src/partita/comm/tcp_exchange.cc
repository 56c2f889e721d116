#include "partita/comm/tcp_exchange.h"

#include <algorithm>
#include <exception>

namespace partita::internal {

template <class Failed>
void TcpExchange::turn(std::vector<TcpPeer>& peers, std::chrono::microseconds wait,
                       std::deque<Transport::Letter>& letters, const Failed& failed) {
  entries_.clear();
  for (const TcpPeer& peer : peers)
    entries_.push_back({peer.socket().descriptor(), static_cast<short>(POLLIN | (peer.sending() ? POLLOUT : 0)), 0});
  const timespec limit{static_cast<time_t>(wait.count() / 1'000'000),
                       static_cast<long>(wait.count() % 1'000'000 * 1000)};
  if (ppoll(entries_.data(), entries_.size(), &limit, nullptr) <= 0) return;
  for (size_t i = 0; i < entries_.size(); ++i) try {
      // Reads first: a goodbye explains why writes fail.
      if (entries_[i].revents & ~POLLOUT) peers[i].read(letters);
      if (entries_[i].revents & POLLOUT && peers[i].socket()) peers[i].write();
    } catch (const std::exception&) {
      failed(peers[i], std::current_exception());
    }
}

void TcpExchange::operator()(std::vector<TcpPeer>& peers, std::chrono::microseconds wait,
                             std::deque<Transport::Letter>& letters) {
  std::exception_ptr first;
  turn(peers, wait, letters, [&](TcpPeer&, const std::exception_ptr& error) {
    if (!first) first = error;
  });
  if (first) std::rethrow_exception(first);
}

void TcpExchange::flush(std::vector<TcpPeer>& peers, Deadline deadline, std::deque<Transport::Letter>& letters) {
  const auto waits = [](const TcpPeer& peer) { return peer.socket() && peer.sending(); };
  while (std::ranges::any_of(peers, waits) && std::chrono::steady_clock::now() < deadline)
    turn(peers, std::chrono::milliseconds(10), letters,
         [](TcpPeer& peer, const std::exception_ptr&) { peer.disconnect(); });
}

}  // namespace partita::internal
