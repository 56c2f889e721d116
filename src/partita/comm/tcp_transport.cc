#include "partita/comm/tcp_transport.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/comm/rendezvous.h"
#include "partita/comm/tcp_peer.h"

namespace partita {
namespace {

class TcpTransfer final : public Transfer {
 public:
  explicit TcpTransfer(std::shared_ptr<TcpPeer::State> state) : state_(std::move(state)) {}
  [[nodiscard]] bool test() override {
    if (!state_->error.empty()) fail("{}", state_->error);
    return state_->done;
  }

 private:
  std::shared_ptr<TcpPeer::State> state_;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const Launch& launch, std::chrono::milliseconds timeout) : rank_(launch.rank), timeout_(timeout) {
    std::vector<Socket> sockets = meet(launch, std::chrono::steady_clock::now() + timeout);
    for (Socket& socket : sockets) peers_.emplace_back(static_cast<int>(peers_.size()), std::move(socket));
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(peers_.size()); }

  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    return std::make_unique<TcpTransfer>(peer(to).send(tag, bytes));
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return std::make_unique<TcpTransfer>(peer(from).receive(tag, bytes));
  }

  void progress() override { serve(std::chrono::microseconds(0)); }
  void idle(std::chrono::microseconds pause) override { serve(pause); }

  void post(int to, std::string text) override {
    text.resize(std::min(text.size(), kMostLetterBytes));
    peer(to).send_letter(std::move(text));
  }
  [[nodiscard]] std::optional<Letter> poll() override {
    progress();
    if (letters_.empty()) return {};
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }

  // Every rank waits until the others have said goodbye too: closing earlier would cut off what is still on its way.
  void close() override {
    for (TcpPeer& peer : peers_) peer.send_goodbye();
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    const auto open = [](const TcpPeer& peer) { return peer.socket() && (peer.sending() || !peer.finished()); };
    while (std::any_of(peers_.begin(), peers_.end(), open) && std::chrono::steady_clock::now() < deadline)
      serve(std::chrono::milliseconds(10));
    peers_.clear();
  }

  [[noreturn]] void abort(int exit_code) override { _exit(exit_code); }  // the others see closed connections

 private:
  TcpPeer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }

  // Reads and writes what is ready; waits for that at most as long as given.
  void serve(std::chrono::microseconds wait) {
    entries_.clear();
    for (const TcpPeer& peer : peers_)
      entries_.push_back({peer.socket().descriptor(), static_cast<short>(POLLIN | (peer.sending() ? POLLOUT : 0)), 0});
    const timespec limit{static_cast<time_t>(wait.count() / 1'000'000),
                         static_cast<long>(wait.count() % 1'000'000 * 1000)};
    if (ppoll(entries_.data(), entries_.size(), &limit, nullptr) <= 0) return;
    for (size_t i = 0; i < entries_.size(); ++i) {
      // Reading first: a goodbye explains why nothing can be written any more.
      if (entries_[i].revents & ~POLLOUT) peers_[i].read(letters_);
      if (entries_[i].revents & POLLOUT && peers_[i].socket()) peers_[i].write();
    }
  }

  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<TcpPeer> peers_;  // by rank
  std::deque<Letter> letters_;
  std::vector<pollfd> entries_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const Launch& launch, std::chrono::milliseconds timeout) {
  return std::make_unique<TcpTransport>(launch, timeout);
}

}  // namespace partita
