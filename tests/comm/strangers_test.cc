// Unrelated processes that connect to a job's rendezvous port: none can join or learn anything, and the ranks still
// connect to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/meetings.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::vector<Peers> met(std::vector<std::future<Met>> ranks) {
  std::vector<Peers> peers;
  for (auto& rank : ranks) {
    Met result = rank.get();
    EXPECT_EQ(result.error, "");
    peers.push_back(std::move(result.peers));
  }
  return peers;
}

TEST(Meeting, RanksComeInAnyOrder) {
  for (int size : {2, 3, 5}) {
    const Job job(size);
    std::vector<std::future<Met>> ranks(static_cast<size_t>(size));
    for (int r = size - 1; r >= 0; --r) ranks[static_cast<size_t>(r)] = job.start(r);
    const std::vector<Peers> peers = met(std::move(ranks));
    EXPECT_TRUE(joined(peers)) << size;
    EXPECT_THAT(peers[1].names[0], testing::MatchesRegex("rank 0 \\(process [0-9]+ on .+\\)"));
  }
}

TEST(Meeting, RanksMaySpellTheHostDifferently) {
  for (auto hosts : {Launch::Hosts::one, Launch::Hosts::unknown}) {
    Job job(3);
    job.hosts = hosts;
    std::vector<std::future<Met>> ranks;
    for (const char* name : {"localhost", "127.0.0.1", "localhost"}) {
      job.master = name;
      ranks.push_back(job.start(static_cast<int>(ranks.size())));
    }
    EXPECT_TRUE(joined(met(std::move(ranks))));
  }
}

// The name of a container often resolves nowhere: with all ranks on one host it is not needed.
TEST(Meeting, OnOneHostNoNameIsNeeded) {
  Job job(2);
  job.master = "no-such-host.invalid";
  std::vector<std::future<Met>> ranks;
  for (int r : {0, 1}) ranks.push_back(job.start(r));
  EXPECT_TRUE(joined(met(std::move(ranks))));
}

TEST(Meeting, OnOneHostOnlyLoopbackIsOpen) {
  const Job job(2);
  auto zero = job.start(0);
  Stranger inside(job.port);
  EXPECT_TRUE(inside.socket());
  for (const std::string& address : own_addresses()) {
    Socket socket;
    if (is_loopback(address) || address.find('%') != address.npos) continue;
    EXPECT_NE(connect_to(address, job.port, in(2s), socket), Connect::connected) << address;
  }
  (void)job.start(1).get();
  EXPECT_EQ(zero.get().error, "");
}

// All at once, and the ranks come while they are there.
TEST(Strangers, DoNotDelayOrEnterAJob) {
  const Job job(3);
  auto zero = job.start(0);
  std::vector<Stranger> strangers;
  for (int i = 0; i < 300; ++i) strangers.emplace_back(job.port);  // silent: more than are let in at once
  Stranger garbage(job.port), http(job.port), half(job.port), huge(job.port), other(job.port), old(job.port);
  garbage.say(std::string(100000, '\x7f'));
  http.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  half.say(std::string("PARTITA2, bu"));
  huge.say(std::string(100000, '\xff'));
  Opening version;
  version.protocol.back() = '9';
  other.say(version);
  old.say(std::string("1ATITRAP"));
  auto one = job.start(1);
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(garbage.dropped());
  EXPECT_TRUE(http.dropped());
  EXPECT_TRUE(huge.dropped());
  EXPECT_TRUE(other.dropped());
  auto two = job.start(2);
  std::vector<std::future<Met>> ranks;
  for (auto* rank : {&zero, &one, &two}) ranks.push_back(std::move(*rank));
  EXPECT_TRUE(joined(met(std::move(ranks))));
}

TEST(Strangers, LearnNothingAndTakeNoPlace) {
  const Job job(2);
  Job neighbour = job;
  neighbour.name = "torchrun none attempt 1";
  auto zero = job.start(0);

  // One that speaks the greeting and knows all but the key.
  Stranger imposter(job.port);
  const Opening mine{.nonce = random_nonce()};
  Opening theirs;
  imposter.say(mine);
  ASSERT_TRUE(imposter.hear(theirs));
  const Identity one = own_identity(1, 2, 12345);
  imposter.say(make_claim(neighbour.key(), {mine.nonce, theirs.nonce}, one));
  EXPECT_TRUE(imposter.dropped()) << "no word more than a random number";

  // One that has recorded what a rank said.
  Stranger replay(job.port);
  replay.say(mine);
  Opening fresh;
  ASSERT_TRUE(replay.hear(fresh));
  EXPECT_NE(fresh.nonce, theirs.nonce);
  replay.say(make_claim(job.key(), {mine.nonce, theirs.nonce}, one));
  EXPECT_TRUE(replay.dropped());

  std::vector<std::future<Met>> ranks;
  ranks.push_back(std::move(zero));
  ranks.push_back(job.start(1));
  EXPECT_TRUE(joined(met(std::move(ranks)))) << "the place is free for the real one";
}

// A rank of a job that is not this one waits for its own until the deadline, and says who answered.
TEST(Strangers, NeighboursAndEarlierAttemptsNeverJoin) {
  const Job job(2);
  const auto never_meets = [&](const Job& other) {
    auto zero = job.start(0, 1500ms);
    const std::string error = other.start(1, 1000ms).get().error;
    EXPECT_THAT(
        error,
        AllOf(HasSubstr("rank 1 did not find rank 0 at 127.0.0.1 port"),
              HasSubstr("the process that listens there is not part of this job, or has another PARTITA_JOB_KEY")));
    EXPECT_THAT(zero.get().error, AllOf(HasSubstr("rank 0 waited "),
                                        HasSubstr(" s at 127.0.0.1, ::1 port " + std::to_string(job.port) +
                                                  " for the 2 ranks of the job: these did not connect in time: 1")));
  };
  Job other = job;
  other.name = "torchrun none attempt 1";
  never_meets(other);
  other = job;
  other.secret = "another";
  never_meets(other);
}

TEST(Strangers, ARankZeroOfAnotherProgramIsNotJoined) {
  const Job job(2);
  auto listening = listen_on("127.0.0.1", job.port);
  auto one = job.start(1, 1500ms);
  std::vector<Socket> guests;  // accepted, and left without an answer
  const Deadline until = in(1000ms);
  while (std::chrono::steady_clock::now() < until)
    if (auto guest = accept_from(*listening)) guests.push_back(std::move(*guest));
  EXPECT_THAT(one.get().error, HasSubstr("rank 1 did not find rank 0"));
}

TEST(Meeting, TwoProcessesOfOneRankAreNamed) {
  const Job job(3);
  auto zero = job.start(0), one = job.start(1);
  std::this_thread::sleep_for(300ms);
  auto again = job.start(1);
  EXPECT_THAT(zero.get().error, AllOf(HasSubstr("two processes claim to be rank 1: rank 1 (process "),
                                      HasSubstr("end what is left of an earlier attempt")));
  const std::string errors = one.get().error + again.get().error;
  EXPECT_THAT(errors, HasSubstr("rank 1: another process has this rank, according to rank 0 (process "));
}

TEST(Meeting, AnotherNumberOfRanksIsNamed) {
  Job job(2);
  auto zero = job.start(0, 3000ms);
  job.size = 4;
  EXPECT_THAT(job.start(3).get().error, AllOf(HasSubstr("rank 3 was started as one of 4 ranks, rank 0 (process "),
                                              HasSubstr("as one of 2: start all ranks of a job with the same number")));
  EXPECT_THAT(zero.get().error, HasSubstr("these did not connect in time: 1"));
}

// Long before the deadline.
TEST(Meeting, ARankThatEndsMeanwhileIsNamed) {
  const Job job(3);
  const auto begin = std::chrono::steady_clock::now();
  auto zero = job.start(0);
  Stranger one(job.port);
  Identity other;
  ASSERT_EQ(greet(one.socket(), job.key(), own_identity(1, 3, 12345), in(20s), other), GreetResult::member);
  EXPECT_EQ(other.rank, 0);
  one.leave();
  EXPECT_THAT(zero.get().error,
              testing::MatchesRegex("rank 0: rank 1 \\(process .+\\) ended, or did not answer, while the "
                                    "ranks were meeting; still missing: 2"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 50s) << "not at its deadline";
}

TEST(Meeting, APortThatIsTakenIsNamed) {
  Job job(2);
  const auto taken = listen_on("127.0.0.1", job.port);
  EXPECT_THAT(job.start(0, 1000ms).get().error,
              HasSubstr("rank 0 cannot listen on MASTER_PORT " + std::to_string(job.port)));
  // Slurm's ports are made from the job's number, so that the next ones serve as well.
  job.ports = 16;
  std::vector<std::future<Met>> ranks;
  for (int r : {0, 1}) ranks.push_back(job.start(r));
  EXPECT_TRUE(joined(met(std::move(ranks))));
}

}  // namespace
}  // namespace partita::internal
