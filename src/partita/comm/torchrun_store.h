// The store that torchrun keeps for its workers at MASTER_ADDR, MASTER_PORT: rank 0 tells the others there where it
// listens, and a secret that it has drawn.
//
//   TorchrunStore store(launch, deadline);
//   store.publish({.port = 40001, .secret = random_secret()});     // rank 0
//   const Publication there = store.read(deadline);                // the others
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "partita/comm/environment.h"
#include "partita/comm/socket.h"

namespace partita::internal {

struct Publication {
  int port = 0;
  std::string secret{};
  std::string address{};  // of rank 0, as its connection to the store shows it; empty: that of the store

  friend bool operator==(const Publication&, const Publication&) = default;
};

// Pure. One line of text, and back; nothing if it is not one.
[[nodiscard]] std::string to_text(const Publication&);
[[nodiscard]] std::optional<Publication> parse_publication(const std::string& text);

class TorchrunStore {
 public:
  // Connects. Error: the store does not answer until the deadline.
  TorchrunStore(const Launch& launch, Deadline deadline);
  ~TorchrunStore();
  TorchrunStore(const TorchrunStore&) = delete;
  TorchrunStore& operator=(const TorchrunStore&) = delete;

  void publish(const Publication&);
  // Waits for rank 0 of this attempt of the job. Error: it has not published until the deadline, or the store is gone.
  [[nodiscard]] Publication read(Deadline deadline);

 private:
  struct Client;
  std::unique_ptr<Client> client_;
  std::string key_, place_;
  int rank_;
};

}  // namespace partita::internal
