#include "partita/comm/tcp_transport.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/comm/rendezvous.h"
#include "partita/comm/tcp_exchange.h"
#include "partita/comm/tcp_peer.h"

namespace partita::internal {
namespace {

// A computing rank reads only at its next message; until then its queued data may fill the connection.
constexpr std::chrono::milliseconds kFlushWithin{2000};

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
    Peers met = meet(launch, std::chrono::steady_clock::now() + timeout);
    for (size_t r = 0; r < met.sockets.size(); ++r)
      peers_.emplace_back(static_cast<int>(r), std::move(met.names[r]), std::move(met.sockets[r]));
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(peers_.size()); }

  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    std::shared_ptr<TcpPeer::State> state;
    spreading([&] { state = peer(to).send(tag, bytes); });
    return std::make_unique<TcpTransfer>(std::move(state));
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    std::shared_ptr<TcpPeer::State> state;
    spreading([&] { state = peer(from).receive(tag, bytes); });
    return std::make_unique<TcpTransfer>(std::move(state));
  }

  void progress() override { serve(std::chrono::microseconds(0)); }
  void idle(std::chrono::microseconds pause) override { serve(pause); }

  void post(int to, std::string text) override {
    text.resize(std::min(text.size(), kMostLetterBytes));
    spreading([&] { peer(to).send_letter(std::move(text)); });
  }
  [[nodiscard]] std::optional<Letter> poll() override {
    progress();
    if (letters_.empty()) return {};
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }

  // Every rank waits for all goodbyes: closing earlier would cut off data in flight.
  void close() override {
    for (TcpPeer& peer : peers_) peer.send_goodbye();
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    const auto open = [](const TcpPeer& peer) { return peer.socket() && (peer.sending() || !peer.finished()); };
    while (true) {
      const auto late = std::find_if(peers_.begin(), peers_.end(), open);
      if (late == peers_.end()) break;
      if (std::chrono::steady_clock::now() > deadline)
        fail("{} did not finish within {:g} s", late->name(), std::chrono::duration<double>(timeout_).count());
      serve(std::chrono::milliseconds(10));
    }
    peers_.clear();
  }

  // Tells the other ranks the cause, before they see closed connections.
  [[noreturn]] void abort(int exit_code, const std::string& cause) override {
    try {
      if (const std::unique_lock lock(mutex_, kFlushWithin); lock.owns_lock()) {
        spread(cause.empty() ? fmt::format("rank {} ended with exit code {}", rank_, exit_code)
                             : fmt::format("rank {} ended with exit code {}: {}", rank_, exit_code, cause));
        exchange_.flush(peers_, std::chrono::steady_clock::now() + kFlushWithin, letters_);
      }
    } catch (...) {
      // Out of memory: the others just see a closed connection
    }
    _exit(exit_code);
  }

 private:
  TcpPeer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }

  // Tells the others once why the job ends, so that ranks that see this rank end name the original cause. A cause
  // learned from another rank is forwarded to all, since they may see this rank end before hearing from that one.
  void spread(const std::string& cause) {
    if (std::exchange(spread_, true)) return;
    if (cause_.empty()) cause_ = cause;
    for (TcpPeer& peer : peers_) try {
        peer.send_cause(cause_);
      } catch (const std::exception&) {
        // it is gone, too
      }
  }

  // Runs a step that may detect a lost rank. abort() may be called concurrently from another thread.
  template <class Step>
  void spreading(Step step) {
    const std::lock_guard lock(mutex_);
    try {
      step();
    } catch (const Interrupted& end) {
      learn_cause();
      spread(end.what());
      throw Interrupted(cause_);
    }
  }

  void learn_cause() {
    for (const TcpPeer& peer : peers_)
      if (cause_.empty()) cause_ = peer.cause();
  }

  void serve(std::chrono::microseconds wait) {
    spreading([&] {
      exchange_(peers_, wait, letters_);
      learn_cause();
      if (!cause_.empty()) throw Interrupted(cause_);
    });
  }

  int rank_;
  std::chrono::milliseconds timeout_;
  std::vector<TcpPeer> peers_;  // by rank
  std::deque<Letter> letters_;
  TcpExchange exchange_;
  std::string cause_;  // why the job ends, once known
  bool spread_ = false;
  std::recursive_timed_mutex mutex_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const Launch& launch, std::chrono::milliseconds timeout) {
  return std::make_unique<TcpTransport>(launch, timeout);
}

}  // namespace partita::internal
