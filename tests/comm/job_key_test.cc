#include "partita/comm/job_key.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "partita/comm/handshake.h"

namespace partita::internal {
namespace {

TEST(JobKey, DependsOnEveryPart) {
  const Launch launch{.size = 2, .job = "torchrun none attempt 0 port 29500", .secret = "a"};
  Launch other_job = launch, other_secret = launch, moved = launch;
  other_job.job = "torchrun none attempt 0 port 29501";
  other_secret.secret = "b";
  moved.job += "a";  // the same letters, cut elsewhere
  moved.secret = "";
  const std::set<JobKey> keys = {job_key(launch, ""),       job_key(launch, "x"), job_key(other_job, ""),
                                 job_key(other_secret, ""), job_key(moved, ""),   job_key(moved, "a")};
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_EQ(job_key(launch, "x"), job_key(launch, "x"));
}

TEST(JobKey, SecretsAreNeverTheSame) {
  EXPECT_EQ(random_secret().size(), 64U);
  EXPECT_NE(random_secret(), random_secret());
  EXPECT_NE(random_nonce(), random_nonce());
}

struct HandshakeTest : public ::testing::Test {
  JobKey key = job_key({.job = "one"}, ""), other_key = job_key({.job = "two"}, "");
  Nonces nonces{random_nonce(), random_nonce()};
  Identity zero = own_identity(0, 3, 1), one = own_identity(1, 3, 2);
};

TEST_F(HandshakeTest, AClaimHoldsForItsKeyItsConnectionAndItsWords) {
  const Claim claim = make_claim(key, nonces, one);
  EXPECT_TRUE(valid(key, nonces, claim));
  EXPECT_FALSE(valid(other_key, nonces, claim));
  EXPECT_FALSE(valid(key, {nonces.connects, random_nonce()}, claim)) << "recorded and sent again";
  EXPECT_FALSE(valid(key, {random_nonce(), nonces.listens}, claim));
  Claim forged = claim;
  forged.who.rank = 2;
  EXPECT_FALSE(valid(key, nonces, forged));
  forged = claim;
  forged.proof[31] ^= std::byte{1};
  EXPECT_FALSE(valid(key, nonces, forged));
}

TEST_F(HandshakeTest, AnAnswerHoldsForItsClaimAndVerdict) {
  const Claim claim = make_claim(key, nonces, one);
  const Answer answer = make_answer(key, nonces, claim, zero, Verdict::welcome);
  EXPECT_TRUE(valid(key, nonces, claim, answer));
  EXPECT_FALSE(valid(other_key, nonces, claim, answer));
  EXPECT_FALSE(valid(key, nonces, make_claim(key, nonces, own_identity(2, 3, 2)), answer));
  EXPECT_FALSE(valid(key, {nonces.connects, random_nonce()}, claim, answer)) << "recorded and sent again";
  EXPECT_FALSE(valid(key, {random_nonce(), nonces.listens}, claim, answer));
  Answer forged = answer;
  forged.verdict = Verdict::taken;
  EXPECT_FALSE(valid(key, nonces, claim, forged));
  forged = answer;
  forged.who.rank = 2;  // another rank's words
  EXPECT_FALSE(valid(key, nonces, claim, forged));
  // A claim sent back is no answer.
  forged = {one, Verdict::welcome, claim.proof};
  EXPECT_FALSE(valid(key, nonces, claim, forged));
}

TEST_F(HandshakeTest, RanksAreJudged) {
  EXPECT_EQ(judge(zero, one, false), Verdict::welcome);
  EXPECT_EQ(judge(zero, one, true), Verdict::taken);
  EXPECT_EQ(judge(zero, zero, false), Verdict::taken);
  EXPECT_EQ(judge(zero, own_identity(1, 4, 2), false), Verdict::other_size);
  EXPECT_EQ(judge(zero, own_identity(3, 3, 2), false), Verdict::other_size);
  EXPECT_EQ(judge(zero, own_identity(-1, 3, 2), false), Verdict::other_size);
  Identity older = one;
  older.version = {'0', '.', '0'};
  EXPECT_EQ(judge(zero, older, false), Verdict::other_version);
}

TEST_F(HandshakeTest, OtherVersionsAreToldFromStrangers) {
  Opening opening;
  EXPECT_TRUE(opening.ours());
  EXPECT_FALSE(opening.other_version());
  opening.protocol.back() = '9';
  EXPECT_FALSE(opening.ours());
  EXPECT_TRUE(opening.other_version());
  opening.protocol = {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T'};
  EXPECT_FALSE(opening.other_version());
}

}  // namespace
}  // namespace partita::internal
