// The ranks that save or load together. Minimal interface: own rank, number of ranks, gathering of texts.
//
//   CommunicatorPeers peers(mesh.data());           // communicator_peers.h; Alone{} for one process
//   std::vector<std::string> sizes = agree(peers, [&] { return std::to_string(prepare()); });
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "partita/base/error.h"

namespace partita {

// A failure that all ranks know of: they can go on together. (An error of the communication itself is another one.)
class AgreedError : public Error {
 public:
  using Error::Error;
};

class Peers {
 public:
  virtual ~Peers() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Gathers every rank's text, in rank order. Collective.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;
};

class Alone final : public Peers {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
};

// Runs `work` on every rank and shares the outcome: returns all results in rank order. If any rank threw, all ranks
// throw the same AgreedError: the message of the first failing rank, with its number; Damaged if every failing rank
// threw Damaged. So no rank continues alone, and none waits for one that has stopped.
[[nodiscard]] std::vector<std::string> agree(Peers&, const std::function<std::string()>& work);

// Waits until is_done(at most so long) says yes on every rank. Ranks ask each other about once a second, so that no
// collective takes longer than that, however long the work does.
void wait_for_all(Peers&, const std::function<bool(std::chrono::milliseconds)>& is_done);

}  // namespace partita
