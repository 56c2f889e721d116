#include "partita/comm/stall.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace partita::internal {
namespace {

using namespace std::chrono_literals;

const std::vector<int> kRanks = {0, 2, 4, 5};

TEST(StallMessage, NamesWhoDidNotArriveAndWhoWaitsElsewhere) {
  const auto message = [](const std::map<int, std::string>& answers) {
    return stall_message("dp.all_gather #17", 4096, 600s, kRanks, 0, answers);
  };
  const std::string head = "dp.all_gather #17 (4096 bytes) did not finish within 600 s (parallel.timeout_seconds):";
  EXPECT_EQ(message({{2, "dp.all_gather #17"}, {5, "dp.all_gather #17"}}), head + " rank 4 did not arrive");
  EXPECT_EQ(message({}), head + " ranks 2, 4, 5 did not arrive");
  EXPECT_EQ(message({{2, "tp.barrier #4"}, {5, "tp.barrier #4"}}),
            head + " rank 4 did not arrive; ranks 2, 5 wait in tp.barrier #4");
  EXPECT_EQ(message({{2, "tp.barrier #4"}, {4, "dp.all_gather #17"}, {5, "dp.all_gather #17"}}),
            head + " rank 2 waits in tp.barrier #4");
  EXPECT_EQ(message({{2, "dp.all_gather #17"}, {4, "dp.all_gather #17"}, {5, "dp.all_gather #17"}}),
            head + " all ranks wait in it, so a message was lost or is very slow");
  // Another group's rank may answer too: it does not belong to this collective.
  EXPECT_EQ(message({{1, "pp.send #0"}, {2, "dp.all_gather #17"}, {4, "dp.all_gather #17"}, {5, "dp.all_gather #17"}}),
            head + " all ranks wait in it, so a message was lost or is very slow");
}

TEST(StallMessage, GivesTheTimeoutInSeconds) {
  EXPECT_EQ(
      stall_message("dp.barrier #0", 0, 1500ms, kRanks, 2, {}),
      "dp.barrier #0 (0 bytes) did not finish within 1.5 s (parallel.timeout_seconds): ranks 0, 4, 5 did not arrive");
}

// Ranks of one process that post letters to each other.
struct Post {
  std::map<int, std::deque<Transport::Letter>> boxes;
};

class PostTransport final : public Transport {
 public:
  PostTransport(Post& post, int rank) : post_(post), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return 3; }
  [[nodiscard]] std::unique_ptr<Transfer> send(int, Tag, std::span<const std::byte>) override { return {}; }
  [[nodiscard]] std::unique_ptr<Transfer> receive(int, Tag, std::span<std::byte>) override { return {}; }
  void progress() override {}
  void idle(std::chrono::microseconds) override {}
  void post(int to, std::string text) override { post_.boxes[to].push_back({rank_, std::move(text)}); }
  [[nodiscard]] std::optional<Letter> poll() override {
    auto& box = post_.boxes[rank_];
    if (box.empty()) return {};
    const Letter letter = box.front();
    box.pop_front();
    return letter;
  }
  void close() override {}
  [[noreturn]] void abort(int, const std::string&) override { std::terminate(); }

 private:
  Post& post_;
  int rank_;
};

TEST(StallInquiry, WhoWaitsAnswersAndWhoDoesNotIsMissing) {
  Post post;
  PostTransport zero(post, 0), one(post, 1);
  StallInquiry asks, answers;
  const std::vector<int> ranks = {0, 1, 2};
  asks.ask(zero, ranks, "dp.all_gather #3");
  answers.listen(one, "tp.barrier #1");  // rank 1 waits elsewhere, rank 2 does not wait at all
  asks.listen(zero, "dp.all_gather #3");
  EXPECT_EQ(asks.answers(), (std::map<int, std::string>{{1, "tp.barrier #1"}}));
  EXPECT_EQ(answers.answers(), (std::map<int, std::string>{{0, "dp.all_gather #3"}}));
  EXPECT_TRUE(post.boxes[0].empty()) << "an answer is not answered";
  EXPECT_TRUE(post.boxes[1].empty());
}

}  // namespace
}  // namespace partita::internal
