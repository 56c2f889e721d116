// Mutual authentication of two processes of a socket job. The connecting side opens, the listening side challenges; the
// connecting side proves first, so that a stranger learns nothing but a random number:
//
//   connects                       listens
//   Opening{nonce}            ->
//                             <-   Opening{nonce}
//   Claim{identity, proof}    ->
//                             <-   Answer{identity, verdict, proof}
//
// All messages have a fixed size, whatever a stranger sends. Fields use native byte order: all ranks run the same
// program.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "partita/comm/job_key.h"
#include "partita/comm/socket.h"

namespace partita::internal {

// Changes with these messages, those of the rendezvous, and those of tcp_peer.h.
inline constexpr std::array<char, 8> kProtocol = {'P', 'A', 'R', 'T', 'I', 'T', 'A', '2'};

struct Opening {
  std::array<char, 8> protocol = kProtocol;
  Nonce nonce{};
  [[nodiscard]] bool ours() const { return protocol == kProtocol; }
  // Same program, different version.
  [[nodiscard]] bool other_version() const;
};

struct Identity {
  int32_t rank = 0, size = 0, port = 0, process = 0;
  std::array<char, 64> host{};
  std::array<char, 16> version{};

  // "rank 1 (process 4711 on node7)"
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] Identity own_identity(int rank, int size, int port);

enum class Verdict : int32_t { welcome, taken, other_size, other_version };

struct Claim {
  Identity who;
  Proof proof{};
};
struct Answer {
  Identity who;
  Verdict verdict{};
  Proof proof{};
};

// Both nonces tie a proof to its connection.
struct Nonces {
  Nonce connects{}, listens{};
};
[[nodiscard]] Claim make_claim(const JobKey&, const Nonces&, const Identity&);
[[nodiscard]] bool valid(const JobKey&, const Nonces&, const Claim&);
[[nodiscard]] Answer make_answer(const JobKey&, const Nonces&, const Claim&, const Identity&, Verdict);
[[nodiscard]] bool valid(const JobKey&, const Nonces&, const Claim&, const Answer&);

// Pure. The verdict of rank `me` on a valid claim; `taken`: the claimed rank is already connected.
[[nodiscard]] Verdict judge(const Identity& me, const Identity& who, bool taken);

// The connecting side. Error: a peer of this job rejected this process, with the reason.
enum class GreetResult { member, stranger, other_version };
[[nodiscard]] GreetResult greet(const Socket&, const JobKey&, const Identity& me, Deadline, Identity& other);

}  // namespace partita::internal
