// The key-value store that torchrun runs at MASTER_ADDR:MASTER_PORT. Rank 0 publishes its listening port and a random
// secret in it.
//
//   TorchrunStore store(launch, deadline);
//   store.publish({.port = 40001, .secret = random_secret()});     // rank 0
//   const Publication there = store.read(deadline);                // other ranks
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
  std::string address{};  // of rank 0, as seen in its connection to the store; empty: same host as the store

  friend bool operator==(const Publication&, const Publication&) = default;
};

// Pure. Conversion to and from one line of text; nullopt if malformed.
[[nodiscard]] std::string to_text(const Publication&);
[[nodiscard]] std::optional<Publication> parse_publication(const std::string& text);

class TorchrunStore {
 public:
  // Connects. Error: the store does not answer before the deadline.
  TorchrunStore(const Launch& launch, Deadline deadline);
  ~TorchrunStore();
  TorchrunStore(const TorchrunStore&) = delete;
  TorchrunStore& operator=(const TorchrunStore&) = delete;

  void publish(const Publication&);
  // Waits for rank 0 of this attempt of the job. Error: not published before the deadline, or the store is gone.
  [[nodiscard]] Publication read(Deadline deadline);

 private:
  struct Client;
  std::unique_ptr<Client> client_;
  std::string key_, place_;
  int rank_;
};

}  // namespace partita::internal
