// Lets the ranks of a job in that connect to this process, and nobody else, however many knock: all are served at once,
// each in a few messages of fixed size, and whoever takes long or does not prove that it knows the job's key is
// dropped.
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
    Verdict verdict{};  // as it was told; turned away: its connection is closed
  };
  // Whoever proved next that it is of this job; nothing at the deadline, or after a fraction of a second, so that the
  // caller can look after other things. `taken`: whether this rank is there already.
  [[nodiscard]] std::optional<Guest> next(Deadline deadline, const std::function<bool(int rank)>& taken);

  // How many strangers were dropped.
  [[nodiscard]] int strangers() const { return strangers_; }

 private:
  struct Visitor {
    Socket socket;
    Deadline until;
    std::vector<std::byte> received;
    std::optional<Nonces> nonces;  // once it has opened
  };

  void let_in();
  // What has come from a visitor; false: it is to be dropped.
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
