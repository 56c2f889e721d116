#include "partita/comm/delayed_transport.h"

#include <algorithm>
#include <exception>
#include <list>
#include <map>
#include <random>
#include <utility>

namespace partita::internal {
namespace {

using Clock = std::chrono::steady_clock;

// A message that has not left yet, or the transfer that it has become.
struct Message {
  int to;
  Tag tag;
  std::span<const std::byte> bytes;
  Clock::time_point leaves;
  std::unique_ptr<Transfer> transfer;
};

class DelayedTransfer final : public Transfer {
 public:
  explicit DelayedTransfer(std::shared_ptr<Message> message) : message_(std::move(message)) {}
  [[nodiscard]] bool test() override { return message_->transfer != nullptr && message_->transfer->test(); }

 private:
  std::shared_ptr<Message> message_;
};

class DelayedTransport final : public Transport {
 public:
  DelayedTransport(std::unique_ptr<Transport> inner, std::chrono::microseconds most, uint64_t seed)
      : inner_(std::move(inner)), most_(most), random_(seed) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }

  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    auto message = std::make_shared<Message>(to, tag, bytes, Clock::now() + next_delay());
    Clock::time_point& last = last_[{to, tag}];
    message->leaves = last = std::max(last, message->leaves);
    waiting_.push_back(message);
    send_due();
    return std::make_unique<DelayedTransfer>(std::move(message));
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return inner_->receive(from, tag, bytes);
  }
  void progress() override {
    send_due();
    inner_->progress();
  }
  void idle(std::chrono::microseconds most) override {
    for (const auto& message : waiting_)
      most = std::min(most, std::chrono::duration_cast<std::chrono::microseconds>(message->leaves - Clock::now()));
    if (most.count() > 0) inner_->idle(most);
  }

  void post(int to, std::string text) override { inner_->post(to, std::move(text)); }
  [[nodiscard]] std::optional<Letter> poll() override { return inner_->poll(); }
  void close() override { inner_->close(); }
  [[noreturn]] void abort(int exit_code, const std::string& cause) override {
    inner_->abort(exit_code, cause);
    std::terminate();  // not reached, which the compiler does not see of a virtual function
  }

 private:
  std::chrono::microseconds next_delay() {
    const uint64_t number = random_();
    if (number % 2 == 0) return {};
    return std::chrono::microseconds(static_cast<int64_t>((number / 2) % static_cast<uint64_t>(most_.count() + 1)));
  }

  // In the order in which they were sent, so that those of one tag stay in order.
  void send_due() {
    const Clock::time_point now = Clock::now();
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      Message& message = **at;
      if (message.leaves > now) {
        ++at;
        continue;
      }
      message.transfer = inner_->send(message.to, message.tag, message.bytes);
      at = waiting_.erase(at);
    }
  }

  std::unique_ptr<Transport> inner_;
  std::chrono::microseconds most_;
  std::mt19937_64 random_;
  std::list<std::shared_ptr<Message>> waiting_;
  std::map<std::pair<int, Tag>, Clock::time_point> last_;  // when the last message of a tag leaves
};

}  // namespace

std::unique_ptr<Transport> make_delayed_transport(std::unique_ptr<Transport> inner, std::chrono::microseconds most,
                                                  uint64_t seed) {
  return std::make_unique<DelayedTransport>(std::move(inner), most, seed);
}

}  // namespace partita::internal
