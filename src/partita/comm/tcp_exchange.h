// Moves what is ready between this rank and its peers, and lets one that is gone keep nobody else from being heard: a
// job ends for the reason that one rank gives, and the ranks that hear it end too, before the others have heard it.
//
//   TcpExchange exchange;
//   exchange(peers, wait, letters);                  // Interrupted: a peer is gone, after all others were read
//   exchange.flush(peers, deadline, letters);        // what is queued goes out to all who are there
#pragma once
#include <poll.h>

#include <chrono>
#include <deque>
#include <vector>

#include "partita/comm/tcp_peer.h"

namespace partita::internal {

class TcpExchange {
 public:
  // Reads and writes what is ready; waits for that at most as long as given. Errors: the first of those that the peers'
  // read() and write() found, when each has had its turn.
  void operator()(std::vector<TcpPeer>& peers, std::chrono::microseconds wait, std::deque<Transport::Letter>& letters);

  // Until nothing is queued any more, or the deadline. Peers that are gone are closed. No errors: whoever cannot be
  // reached sees the closed connection.
  void flush(std::vector<TcpPeer>& peers, Deadline deadline, std::deque<Transport::Letter>& letters);

 private:
  // Calls failed(peer, exception) for each that is gone.
  template <class Failed>
  void turn(std::vector<TcpPeer>& peers, std::chrono::microseconds wait, std::deque<Transport::Letter>& letters,
            const Failed& failed);

  std::vector<pollfd> entries_;
};

}  // namespace partita::internal
