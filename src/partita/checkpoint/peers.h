// The ranks that save or load together, as far as a checkpoint needs them: who am I, and what did everyone say.
//
//   CommunicatorPeers peers(mesh.data());           // communicator_peers.h; Alone{} for one process
//   std::vector<std::string> sizes = agree(peers, [&] { return std::to_string(prepare()); });
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace partita {

class Peers {
 public:
  virtual ~Peers() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Everyone's text in rank order. Every rank calls it the same number of times.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;
};

class Alone final : public Peers {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
};

// Every rank does its work, and all learn how it went: returns everyone's result in rank order, or, where any rank
// threw, throws the same Error on all of them (the message of the first such rank, with its number; Damaged where every
// rank that threw did). So no rank goes on alone, and none waits for one that has stopped.
[[nodiscard]] std::vector<std::string> agree(Peers&, const std::function<std::string()>& work);

}  // namespace partita
