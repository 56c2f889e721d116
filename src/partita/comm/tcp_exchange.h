// Reads and writes all ready peer connections. A peer that is gone does not prevent the others from being read: a job
// ends for the reason given by one rank, and ranks that have heard it end before the others have.
//
//   TcpExchange exchange;
//   exchange(peers, wait, letters);                  // Interrupted: a peer is gone; all others were read first
//   exchange.flush(peers, deadline, letters);        // sends what is queued to all live peers
#pragma once
#include <poll.h>

#include <chrono>
#include <deque>
#include <vector>

#include "partita/comm/tcp_peer.h"

namespace partita::internal {

class TcpExchange {
 public:
  // Reads and writes what is ready, waiting at most `wait`. Errors: the first one from the peers' read() and write(),
  // after every peer was served.
  void operator()(std::vector<TcpPeer>& peers, std::chrono::microseconds wait, std::deque<Transport::Letter>& letters);

  // Sends everything queued, or stops at the deadline. Closes peers that are gone. Never throws: unreachable peers see
  // the closed connection.
  void flush(std::vector<TcpPeer>& peers, Deadline deadline, std::deque<Transport::Letter>& letters);

 private:
  // Calls failed(peer, exception) for each that is gone.
  template <class Failed>
  void turn(std::vector<TcpPeer>& peers, std::chrono::microseconds wait, std::deque<Transport::Letter>& letters,
            const Failed& failed);

  std::vector<pollfd> entries_;
};

}  // namespace partita::internal
