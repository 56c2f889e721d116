// Rendezvous through torchrun's store, using the store itself as torchrun runs it.
#include "partita/comm/torchrun_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/comm/meetings.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

c10::intrusive_ptr<c10d::TCPStore> serve_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

Job job_at(const c10d::TCPStore& store, int ranks) {
  Job job(ranks);
  job.store = true;
  job.port = store.getPort();
  return job;
}

TEST(Publication, IsALineOfText) {
  for (const Publication& p :
       {Publication{1, "ab", ""}, Publication{65535, "0f", "10.0.0.1"}, Publication{7, "x", "fe80::1"}})
    EXPECT_EQ(parse_publication(to_text(p)), p);
  for (const char* wrong :
       {"", "1", "1 ", "1  ", "0 ab ", "65536 ab ", "x ab ", "7x ab ", "-1 ab ", "99999999999999999999 ab "})
    EXPECT_EQ(parse_publication(wrong), std::nullopt) << wrong;
}

TEST(TorchrunStore, TellsTheRanksWhereRankZeroIs) {
  const auto store = serve_store();
  const Job job = job_at(*store, 3);
  std::vector<std::future<Met>> ranks;
  for (int r : {2, 1, 0}) ranks.push_back(job.start(r));
  std::vector<Peers> peers(3);
  for (int r : {2, 1, 0}) {
    Met met = ranks[static_cast<size_t>(2 - r)].get();
    EXPECT_EQ(met.error, "");
    peers[static_cast<size_t>(r)] = std::move(met.peers);
  }
  EXPECT_TRUE(joined(peers));
}

// Each has a store of its own: two jobs of the same name and number of ranks at the same time, on neighbouring ports.
TEST(TorchrunStore, NeighboursDoNotMix) {
  const auto store_a = serve_store(), store_b = serve_store();
  const Job a = job_at(*store_a, 2), b = job_at(*store_b, 2);
  auto a1 = a.start(1), b1 = b.start(1), b0 = b.start(0), a0 = a.start(0);
  std::vector<Peers> of_a(2), of_b(2);
  of_a[0] = a0.get().peers, of_a[1] = a1.get().peers, of_b[0] = b0.get().peers, of_b[1] = b1.get().peers;
  ASSERT_EQ(of_a[0].sockets.size(), 2U);
  ASSERT_EQ(of_b[1].sockets.size(), 2U);
  EXPECT_TRUE(joined(of_a));
  EXPECT_TRUE(joined(of_b));
}

// torchrun keeps its store from attempt to attempt, and ranks of the one before may still be about.
TEST(TorchrunStore, AttemptsDoNotMix) {
  const auto store = serve_store();
  const Job a = job_at(*store, 2);
  Job b = a;
  b.name = "torchrun none attempt 1";
  auto a0 = a.start(0), b0 = b.start(0), a1 = a.start(1), b1 = b.start(1);
  std::vector<Peers> of_a(2), of_b(2);
  of_a[0] = a0.get().peers, of_a[1] = a1.get().peers, of_b[0] = b0.get().peers, of_b[1] = b1.get().peers;
  for (const auto& job : {&of_a, &of_b})
    for (const Peers& met : *job) ASSERT_EQ(met.sockets.size(), 2U);
  EXPECT_TRUE(joined(of_a));
  EXPECT_TRUE(joined(of_b));
}

// The name of a job is no secret: what rank 0 drew and only the store has tells its ranks from strangers.
TEST(TorchrunStore, WhoKnowsOnlyTheJobsNameIsAStranger) {
  const auto store = serve_store();
  const Job job = job_at(*store, 2);
  auto zero = job.start(0);
  const Publication published = TorchrunStore(job.launch(1), in(20s)).read(in(20s));
  EXPECT_EQ(published.secret.size(), 64U);
  Stranger imposter(published.port);
  Identity other;
  EXPECT_EQ(greet(imposter.socket(), job.key(), own_identity(1, 2, 12345), in(20s), other), GreetResult::stranger);
  std::vector<Peers> peers(2);
  peers[1] = job.start(1).get().peers;
  peers[0] = zero.get().peers;
  for (const Peers& met : peers) ASSERT_EQ(met.sockets.size(), 2U);
  EXPECT_TRUE(joined(peers));
}

// torchrun that begins again without a node keeps its store: what an ended rank 0 left there is replaced.
TEST(TorchrunStore, WhatAnEndedRankZeroLeftIsPassedOver) {
  const auto store = serve_store();
  const Job job = job_at(*store, 2);
  {
    TorchrunStore left(job.launch(0), in(20s));
    left.publish({.port = port_of(*listen_on("127.0.0.1", 0)), .secret = random_secret()});
  }
  auto one = job.start(1);
  std::this_thread::sleep_for(300ms);
  std::vector<Peers> peers(2);
  peers[0] = job.start(0).get().peers;
  peers[1] = one.get().peers;
  ASSERT_EQ(peers[1].sockets.size(), 2U);
  EXPECT_TRUE(joined(peers));
}

TEST(TorchrunStore, SaysWhatIsMissing) {
  const auto store = serve_store();
  EXPECT_THAT(job_at(*store, 2).start(1, 1000ms).get().error,
              HasSubstr("rank 1 did not hear of rank 0 from torchrun's store at 127.0.0.1 port "));
  Job nobody(2);
  nobody.store = true;
  EXPECT_THAT(nobody.start(0, 1000ms).get().error, HasSubstr("rank 0: torchrun's store at 127.0.0.1 port " +
                                                             std::to_string(nobody.port) + " does not answer: "));
}

}  // namespace
}  // namespace partita::internal
