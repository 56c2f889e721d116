#include "partita/comm/delayed_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Counts what is sent; every message is over at once.
class Seen final : public Transport {
 public:
  struct Sent {
    int to;
    Tag tag;
    std::byte value;
  };
  explicit Seen(std::vector<Sent>& sent) : sent_(&sent) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 3; }
  [[nodiscard]] std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    sent_->push_back({to, tag, bytes[0]});
    return std::make_unique<Over>();
  }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int, Tag, std::span<std::byte>) override {
    return std::make_unique<Over>();
  }
  void progress() override {}
  void idle(std::chrono::microseconds most) override { idled += most; }
  void post(int, std::string) override {}
  [[nodiscard]] std::optional<Letter> poll() override { return std::nullopt; }
  void close() override {}
  [[noreturn]] void abort(int, const std::string& cause) override { throw std::runtime_error(cause); }

  static inline std::chrono::microseconds idled{0};

 private:
  struct Over final : Transfer {
    [[nodiscard]] bool test() override { return true; }
  };
  std::vector<Sent>* sent_;
};

TEST(DelayedTransport, MessagesLeaveLateAndInTheOrderOfTheirTag) {
  std::vector<Seen::Sent> sent;
  const auto transport = make_delayed_transport(std::make_unique<Seen>(sent), 20ms, 7);
  std::array<std::byte, 40> values{};
  std::vector<std::unique_ptr<Transfer>> transfers;
  const auto begin = Clock::now();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::byte>(i);
    transfers.push_back(
        transport->send(1 + static_cast<int>(i % 2), {0, static_cast<uint32_t>(i % 4)}, {&values[i], 1}));
  }
  EXPECT_LT(sent.size(), values.size());
  while (sent.size() < values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      bool left = false;
      for (const Seen::Sent& s : sent) left = left || s.value == values[i];
      EXPECT_EQ(transfers[i]->test(), left);
    }
    ASSERT_LT(Clock::now() - begin, 5s);
    transport->progress();
  }
  EXPECT_LT(Clock::now() - begin, 1s);  // 20 ms, and what a busy machine takes
  for (const auto& transfer : transfers) EXPECT_TRUE(transfer->test());
  std::array<int, 4> last = {-1, -1, -1, -1};  // [tag]: each has one receiver
  bool reordered = false;
  int before = -1;
  for (const Seen::Sent& s : sent) {
    const int value = static_cast<int>(s.value);
    EXPECT_EQ(s.to, 1 + value % 2);
    EXPECT_EQ(s.tag.message, static_cast<uint32_t>(value % 4));
    EXPECT_GT(value, last[static_cast<size_t>(value % 4)]);
    last[static_cast<size_t>(value % 4)] = value;
    reordered = reordered || value < before;
    before = value;
  }
  EXPECT_TRUE(reordered);  // messages of different tags overtake each other
}

// What is sent when the message leaves is what is there then.
TEST(DelayedTransport, AMessageIsReadWhenItLeaves) {
  std::vector<Seen::Sent> sent;
  const auto transport = make_delayed_transport(std::make_unique<Seen>(sent), 50ms, 3);
  std::byte value{1};
  std::vector<std::unique_ptr<Transfer>> transfers;
  while (transfers.size() == sent.size()) transfers.push_back(transport->send(1, {0, 0}, {&value, 1}));
  value = std::byte{2};
  while (!transfers.back()->test()) transport->progress();
  EXPECT_EQ(sent.back().value, std::byte{2});
}

TEST(DelayedTransport, DoesNotSleepPastAMessage) {
  std::vector<Seen::Sent> sent;
  const auto transport = make_delayed_transport(std::make_unique<Seen>(sent), 5ms, 3);
  const std::byte value{1};
  std::vector<std::unique_ptr<Transfer>> transfers;
  while (transfers.size() == sent.size()) transfers.push_back(transport->send(1, {0, 0}, {&value, 1}));
  Seen::idled = {};
  transport->idle(1s);
  EXPECT_LE(Seen::idled, 5ms);
}

}  // namespace
}  // namespace partita::internal
