#include "partita/comm/tcp_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Both ends of a connection, as two ranks have them.
struct Pair {
  TcpPeer near, far;
};

Pair connect_pair(int near_rank, int far_rank) {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {TcpPeer(far_rank, "rank " + std::to_string(far_rank), Socket(ends[0])),
          TcpPeer(near_rank, "rank " + std::to_string(near_rank), Socket(ends[1]))};
}

// Of rank 0: ranks 1 and 3 are gone, and rank 2 has a long message to read before it learns why the job ends.
TEST(TcpExchange, APeerThatIsGoneDoesNotKeepTheCauseFromTheOthers) {
  Pair one = connect_pair(0, 1), two = connect_pair(0, 2), three = connect_pair(0, 3);
  std::vector<TcpPeer> peers;
  for (Pair* pair : {&one, &two, &three}) peers.push_back(std::move(pair->near));
  const std::vector<std::byte> large(size_t{16} << 20);
  const auto sent = peers[1].send({0, 0}, large);
  one.far.disconnect();
  three.far.disconnect();
  EXPECT_FALSE(sent->done) << "more than a connection holds";
  peers[1].send_cause("the disk of rank 0 is full");
  std::thread reader([&] {
    TcpExchange exchange;
    std::deque<Transport::Letter> letters;
    std::vector<TcpPeer> far;
    far.push_back(std::move(two.far));
    std::vector<std::byte> received(large.size());
    const auto got = far[0].receive({0, 0}, received);
    const Deadline limit = std::chrono::steady_clock::now() + 60s;
    while (far[0].cause().empty() && std::chrono::steady_clock::now() < limit) exchange(far, 10ms, letters);
    EXPECT_TRUE(got->done);
    EXPECT_EQ(far[0].cause(), "the disk of rank 0 is full");
    two.far = std::move(far[0]);
  });
  TcpExchange exchange;
  std::deque<Transport::Letter> letters;
  exchange.flush(peers, std::chrono::steady_clock::now() + 60s, letters);
  reader.join();
  EXPECT_TRUE(sent->done);
  EXPECT_FALSE(peers[0].socket());
  EXPECT_TRUE(peers[1].socket());
}

TEST(TcpExchange, ACauseThatHasComeIsLearnedWhenAnotherPeerIsGone) {
  Pair one = connect_pair(0, 1), two = connect_pair(0, 2);
  std::vector<TcpPeer> peers;
  for (Pair* pair : {&one, &two}) peers.push_back(std::move(pair->near));
  two.far.send_cause("rank 2 ended with exit code 1: no data");
  one.far.disconnect();
  TcpExchange exchange;
  std::deque<Transport::Letter> letters;
  EXPECT_THAT(error_message([&] { exchange(peers, 0us, letters); }), HasSubstr("rank 1 ended unexpectedly"));
  EXPECT_EQ(peers[1].cause(), "rank 2 ended with exit code 1: no data");
}

TEST(TcpExchange, AFlushEndsAtItsDeadline) {
  Pair one = connect_pair(0, 1);
  std::vector<TcpPeer> peers;
  peers.push_back(std::move(one.near));
  const std::vector<std::byte> large(size_t{16} << 20);
  const auto sent = peers[0].send({0, 0}, large);  // nobody reads it
  TcpExchange exchange;
  std::deque<Transport::Letter> letters;
  exchange.flush(peers, std::chrono::steady_clock::now() + 30ms, letters);
  EXPECT_FALSE(sent->done);
  EXPECT_TRUE(peers[0].sending());
}

}  // namespace
}  // namespace partita::internal
