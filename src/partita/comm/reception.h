// Accepts connections from the ranks of a job and from nobody else, however many connect: all are served concurrently
// in a few messages of fixed size, and a peer that is slow or does not prove that it knows the job's key is dropped.
//
//   Reception reception(std::move(listening), key, own_identity(0, 4, port));
//   while (auto guest = reception.next(deadline, taken)) ...
#pragma once
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "partita/comm/handshake.h"

namespace partita::internal {

class Reception {
 public:
  Reception(std::vector<Socket> listening, const JobKey& key, const Identity& me);

  struct Guest {
    Socket socket;
    Identity who;
    Verdict verdict{};  // as told to the peer; if rejected, its connection is closed
  };
  // The next peer that proved to belong to this job; nullopt at the deadline, or after a fraction of a second, so that
  // the caller can do other work. `taken`: whether a rank is already connected.
  [[nodiscard]] std::optional<Guest> next(Deadline deadline, const std::function<bool(int rank)>& taken);

  // Number of strangers dropped.
  [[nodiscard]] int strangers() const { return strangers_; }

 private:
  struct Visitor {
    Socket socket;
    Deadline until;
    std::vector<std::byte> received;
    std::optional<Nonces> nonces;  // after its opening
  };

  void let_in();
  // Processes a visitor's data; false: drop it.
  [[nodiscard]] bool listen_to(Visitor& visitor, const std::function<bool(int)>& taken, std::optional<Guest>& guest);
  void drop(const Visitor& visitor, const char* why);

  std::vector<Socket> listening_;
  JobKey key_;
  Identity me_;
  size_t most_;
  std::list<Visitor> visitors_;
  int strangers_ = 0;
};

}  // namespace partita::internal
