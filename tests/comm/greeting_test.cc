// The handshake of a connecting rank: a process that cannot prove that it belongs to the job is rejected, and learns no
// more than necessary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/comm/meetings.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const JobKey kKey = job_key({.job = "one"}, ""), kOtherKey = job_key({.job = "two"}, "");

// The other end of the connection, once it has been accepted.
struct Listener {
  Socket socket;
  template <class Message>
  void say(const Message& message) const {
    (void)send_all(socket, std::as_bytes(std::span(&message, 1)), in(5s));
  }
  template <class Message>
  bool hear(Message& message) const {
    return receive_all(socket, std::as_writable_bytes(std::span(&message, 1)), in(20s));
  }
  // Opens as a rank does; the claim that came, and the nonces of the connection.
  std::pair<Claim, Nonces> open() const {
    const Opening mine{.nonce = random_nonce()};
    Opening theirs;
    Claim claim;
    EXPECT_TRUE(hear(theirs));
    say(mine);
    EXPECT_TRUE(hear(claim));
    return {claim, {theirs.nonce, mine.nonce}};
  }
};

// Rank 1 of 3 greets whoever `listens`.
GreetResult greeted_by(const std::function<void(const Listener&)>& listens, Identity& other) {
  const auto listening = listen_on("127.0.0.1", 0);
  std::thread thread([&] {
    Listener listener;
    while (!listener.socket)
      if (auto accepted = accept_from(*listening)) listener.socket = std::move(*accepted);
    listens(listener);
  });
  GreetResult greeted = GreetResult::stranger;
  const std::string error = error_message([&] {
    Socket socket;
    ASSERT_EQ(connect_to("127.0.0.1", port_of(*listening), in(20s), socket), Connect::connected);
    greeted = greet(socket, kKey, own_identity(1, 3, 2), in(20s), other);
  });
  thread.join();
  if (error != "no error") fail("{}", error);
  return greeted;
}

const Identity kZero = own_identity(0, 3, 1);

TEST(Greeting, AMemberProvesIt) {
  Identity other;
  EXPECT_EQ(greeted_by(
                [](const Listener& rank) {
                  const auto [claim, nonces] = rank.open();
                  EXPECT_TRUE(valid(kKey, nonces, claim));
                  rank.say(make_answer(kKey, nonces, claim, kZero, Verdict::welcome));
                },
                other),
            GreetResult::member);
  EXPECT_EQ(other.text(), kZero.text());
}

// One that speaks as rank 0 does and knows all but the key, or has recorded what rank 0 said to another connection.
TEST(Greeting, WhoDoesNotProveItIsAStranger) {
  const std::vector<std::function<Answer(const Claim&, const Nonces&)>> forgeries = {
      [](const Claim& claim, const Nonces& nonces) {
        return make_answer(kOtherKey, nonces, claim, kZero, Verdict::welcome);
      },
      [](const Claim& claim, const Nonces& nonces) {
        return make_answer(kKey, {random_nonce(), nonces.listens}, claim, kZero, Verdict::welcome);
      },
      [](const Claim& claim, const Nonces&) {
        return Answer{claim.who, Verdict::welcome, claim.proof};
      },
      [](const Claim&, const Nonces&) {
        return Answer{kZero, Verdict::welcome, {}};
      },
      // Who is not of the job cannot end it either.
      [](const Claim& claim, const Nonces& nonces) {
        return make_answer(kOtherKey, nonces, claim, kZero, Verdict::other_size);
      }};
  for (size_t i = 0; i < forgeries.size(); ++i) {
    Identity other;
    EXPECT_EQ(greeted_by(
                  [&](const Listener& imposter) {
                    const auto [claim, nonces] = imposter.open();
                    imposter.say(forgeries[i](claim, nonces));
                  },
                  other),
              GreetResult::stranger)
        << i;
    EXPECT_EQ(other.process, 0) << "nothing is believed of what it said: " << i;
  }
}

// Of the job, but not who was looked for: an address that leads to another rank.
TEST(Greeting, AnotherRankIsNotTakenForRankZero) {
  const Job job(3);
  auto listening = listen_on("127.0.0.1", job.port);
  auto one = job.start(1, 1500ms);
  const Deadline until = in(1000ms);
  while (std::chrono::steady_clock::now() < until)
    if (auto accepted = accept_from(*listening)) {
      const Listener two{std::move(*accepted)};
      const auto [claim, nonces] = two.open();
      two.say(make_answer(job.key(), nonces, claim, own_identity(2, 3, 1), Verdict::welcome));
    }
  EXPECT_THAT(one.get().error, HasSubstr("rank 1 did not find rank 0"));
}

TEST(Greeting, AnotherProgramHearsARandomNumberAndNoMore) {
  std::array<char, sizeof(Opening)> banner{};
  std::string_view("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").copy(banner.data(), banner.size());
  Opening newer;
  newer.protocol.back() = '9';
  for (const bool of_another_version : {false, true}) {
    Identity other;
    EXPECT_EQ(greeted_by(
                  [&](const Listener& program) {
                    Opening theirs;
                    EXPECT_TRUE(program.hear(theirs));
                    if (of_another_version)
                      program.say(newer);
                    else
                      program.say(banner);
                    std::byte more{};
                    EXPECT_FALSE(program.hear(more)) << "no claim";
                  },
                  other),
              of_another_version ? GreetResult::other_version : GreetResult::stranger);
  }
}

TEST(Greeting, AMemberThatTurnsItAwaySaysWhy) {
  const auto error = [](const Identity& by, Verdict verdict) {
    return error_message([&] {
      Identity other;
      (void)greeted_by(
          [&](const Listener& rank) {
            const auto [claim, nonces] = rank.open();
            rank.say(make_answer(kKey, nonces, claim, by, verdict));
          },
          other);
    });
  };
  EXPECT_THAT(error(kZero, Verdict::taken), HasSubstr("rank 1: another process has this rank"));
  EXPECT_THAT(error(own_identity(0, 5, 1), Verdict::other_size),
              AllOf(HasSubstr("one of 3 ranks"), HasSubstr("one of 5")));
  Identity newer = kZero;
  newer.version = {'9', '.', '1'};
  EXPECT_THAT(error(newer, Verdict::other_version), HasSubstr("version 9.1: install one version on all hosts"));
}

}  // namespace
}  // namespace partita::internal
