// The layer below collectives: non-blocking messages of bytes between two ranks of the job. Implemented for MPI, TCP
// sockets and single-rank jobs; the collectives on top are the same for all.
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

// A message matches a receive with the same tag; messages with one tag between two ranks arrive in order.
struct Tag {
  uint32_t channel = 0;  // one per group that two ranks share
  uint32_t message = 0;  // less than kMessages: identifies the collective of the group
  static constexpr uint32_t kMessageBits = 12;
  static constexpr uint32_t kMessages = 1U << kMessageBits;
  friend auto operator<=>(const Tag&, const Tag&) = default;
};

// A message in flight. Its bytes must stay in place until test() is true.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // True once the bytes may be reused (send) or read (receive). Error: a message of unexpected length.
  [[nodiscard]] virtual bool test() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  [[nodiscard]] virtual std::unique_ptr<Transfer> send(int to, Tag, std::span<const std::byte>) = 0;
  [[nodiscard]] virtual std::unique_ptr<Transfer> receive(int from, Tag, std::span<std::byte>) = 0;
  // Drives all transfers. Error: Interrupted if a peer has died.
  virtual void progress() = 0;
  // Called when there is nothing to do: sleeps at most this long, less if a message arrives.
  virtual void idle(std::chrono::microseconds) = 0;

  // Short texts outside of collectives (reports of what a rank waits for), sent immediately and received by polling.
  struct Letter {
    int from;
    std::string text;  // at most kMostLetterBytes
  };
  static constexpr size_t kMostLetterBytes = 512;
  virtual void post(int to, std::string text) = 0;
  [[nodiscard]] virtual std::optional<Letter> poll() = 0;

  // Orderly shutdown; called on every rank.
  virtual void close() = 0;
  // Ends this process and the whole job. `cause` is passed to ranks that can be told.
  [[noreturn]] virtual void abort(int exit_code, const std::string& cause) = 0;
};

// For single-rank jobs: there are no peers, so nothing is ever sent.
[[nodiscard]] std::unique_ptr<Transport> make_local_transport();

}  // namespace partita::internal
