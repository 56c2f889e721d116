#include "partita/comm/meeting_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/comm/socket.h"

namespace partita::internal {
namespace {

using Hosts = Launch::Hosts;
using testing::ElementsAre;
using Addresses = std::vector<std::string>;

const Addresses kOwn = {"127.0.0.1", "10.0.0.4", "192.168.1.4", "::1", "fd00::4"};

Addresses listening(Hosts hosts, const std::string& master, const Addresses& named) {
  return listening_addresses({.hosts = hosts, .master_address = master}, named, kOwn);
}

TEST(MeetingPlace, OnlyWhatTheJobNeeds) {
  EXPECT_EQ(listening(Hosts::one, "node1", {"10.0.0.4"}), kLoopback);
  EXPECT_EQ(listening(Hosts::one, "unknown-name", {}), kLoopback);
  EXPECT_EQ(listening(Hosts::unknown, "localhost", {"127.0.0.1", "::1"}), kLoopback);
  EXPECT_EQ(listening(Hosts::unknown, "127.0.0.1", {"127.0.0.1"}), kLoopback);
  EXPECT_THAT(listening(Hosts::several, "node1", {"10.0.0.4"}), ElementsAre("10.0.0.4"));
  EXPECT_THAT(listening(Hosts::unknown, "node1", {"10.0.0.4", "fd00::4"}), ElementsAre("10.0.0.4", "fd00::4"));
  EXPECT_THAT(listening(Hosts::several, "node1", {"172.16.0.1", "10.0.0.4"}), ElementsAre("10.0.0.4"));
}

TEST(MeetingPlace, AllWhereTheNameDoesNotTell) {
  EXPECT_THAT(listening(Hosts::several, "service", {"172.16.0.9"}), ElementsAre(""));  // a cluster's virtual address
  EXPECT_THAT(listening(Hosts::several, "unknown-name", {}), ElementsAre(""));
  // Debian's /etc/hosts gives a host's own name a loopback address, which the other hosts do not see.
  EXPECT_THAT(listening(Hosts::several, "node1", {"127.0.1.1"}), ElementsAre(""));
  EXPECT_THAT(listening(Hosts::unknown, "node1", {"127.0.1.1"}), ElementsAre(""));
  // Clusters that tell rank 0 "localhost" and the others its name.
  EXPECT_THAT(listening(Hosts::several, "localhost", {"127.0.0.1"}), ElementsAre(""));
}

TEST(Addresses, OfNamesAndOfThisHost) {
  EXPECT_THAT(resolve("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(resolve("::1"), ElementsAre("::1"));
  EXPECT_THAT(resolve("localhost"), testing::Each(testing::Truly(is_loopback)));
  EXPECT_THAT(resolve("no-such-host.invalid"), testing::IsEmpty());
  EXPECT_THAT(own_addresses(), testing::Contains("127.0.0.1"));
}

}  // namespace
}  // namespace partita::internal
