// What collectives are made of: messages of bytes between two ranks of the job, sent and received without blocking.
// MPI, TCP sockets and a job of one rank each implement it; the collectives above are the same for all.
//
//   auto sent = transport.send(1, {channel, 0}, bytes);
//   auto got = transport.receive(1, {channel, 0}, buffer);
//   while (!(sent->test() && got->test())) transport.progress();
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace partita::internal {

// A message matches a receive of the same tag; messages of one tag between two ranks arrive in the order sent.
struct Tag {
  uint32_t channel = 0;  // one for each group that two ranks share
  uint32_t message = 0;  // below kMessages: which collective of the group
  static constexpr uint32_t kMessageBits = 12;
  static constexpr uint32_t kMessages = 1U << kMessageBits;
  friend auto operator<=>(const Tag&, const Tag&) = default;
};

// One message on its way. Its bytes must stay in place until test() is true.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // True once the bytes may be reused (send) or read (receive). Errors: a message of another length than expected.
  [[nodiscard]] virtual bool test() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  [[nodiscard]] virtual std::unique_ptr<Transfer> send(int to, Tag, std::span<const std::byte>) = 0;
  [[nodiscard]] virtual std::unique_ptr<Transfer> receive(int from, Tag, std::span<std::byte>) = 0;
  // Moves all transfers on. Errors: Interrupted when a peer has died.
  virtual void progress() = 0;
  // Nothing to do: sleeps for at most this long, less if a message comes.
  virtual void idle(std::chrono::microseconds) = 0;

  // Short texts outside of all collectives (reports of who waits for what): sent at once, received by whoever polls.
  struct Letter {
    int from;
    std::string text;  // at most kMostLetterBytes
  };
  static constexpr size_t kMostLetterBytes = 512;
  virtual void post(int to, std::string text) = 0;
  [[nodiscard]] virtual std::optional<Letter> poll() = 0;

  // Orderly end, on every rank.
  virtual void close() = 0;
  // Ends this process, and with it the others. `cause`: for those of them that can be told.
  [[noreturn]] virtual void abort(int exit_code, const std::string& cause) = 0;
};

// A job of one rank: it has no peer, so nothing is ever sent.
[[nodiscard]] std::unique_ptr<Transport> make_local_transport();

}  // namespace partita::internal
