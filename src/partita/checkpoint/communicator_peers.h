// Peers implemented on a Communicator.
//
//   CommunicatorPeers peers(mesh.data());
//   const auto newest = find_latest("runs/a/checkpoints", peers);
#pragma once
#include <string>
#include <vector>

#include "partita/checkpoint/peers.h"
#include "partita/comm/communicator.h"

namespace partita {

class CommunicatorPeers final : public Peers {
 public:
  explicit CommunicatorPeers(Communicator& communicator) : communicator_(communicator) {}
  [[nodiscard]] int rank() const override { return communicator_.rank(); }
  [[nodiscard]] int size() const override { return communicator_.size(); }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override {
    return gather_strings(communicator_, mine);
  }

 private:
  Communicator& communicator_;
};

}  // namespace partita
