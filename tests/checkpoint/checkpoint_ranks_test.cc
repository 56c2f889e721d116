// Save and load on real ranks: what threads share in checkpoint_test.cc goes through the communicator's gather here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "tests/checkpoint/test_state.h"
#include "tests/support/error_message.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// Rank 0's folder, for all; it goes with the object on rank 0.
class SharedDirectory {
 public:
  explicit SharedDirectory(Peers& peers) : leader_(peers.rank() == 0), path_(peers.gather(own_.path().string())[0]) {}
  [[nodiscard]] const std::filesystem::path& path() const { return leader_ ? own_.path() : path_; }

 private:
  TemporaryDirectory own_;
  bool leader_;
  std::filesystem::path path_;
};

TEST(CheckpointRanks, SaveLoadAndFindTogether) {
  const auto all = test_world().group("all", test_ranks());
  CommunicatorPeers peers(*all);
  const SharedDirectory root(peers);
  const auto rank = static_cast<size_t>(peers.rank());
  const GlobalValues values(odd_tensors(), 3);

  RankMemory saved = std::move(random_layout(values.tensors(), peers.size(), 1)[rank]);
  saved.fill(values);
  saved.state.scalars = {{"step", 7}};
  const auto folder = save_checkpoint(root.path(), 7, saved.state, peers);
  EXPECT_EQ(find_latest(root.path(), peers), folder);

  RankMemory wanted = std::move(random_layout(values.tensors(), peers.size(), 2)[rank]);
  EXPECT_EQ(load_checkpoint(folder, wanted.state, peers)["step"], 7);
  EXPECT_TRUE(wanted.holds(values));
  RankMemory everything = whole_layout(values.tensors());
  (void)load_checkpoint(folder, everything.state, peers);
  EXPECT_TRUE(everything.holds(values));
  all->barrier();  // the folder goes when all have read
}

TEST(CheckpointRanks, AFailureOnOneRankIsTheSameErrorOnAll) {
  const auto all = test_world().group("all", test_ranks());
  CommunicatorPeers peers(*all);
  const SharedDirectory root(peers);
  const bool last = peers.rank() == peers.size() - 1;
  const GlobalValues values(odd_tensors(), 3);
  RankMemory saved = std::move(random_layout(values.tensors(), peers.size(), 1)[static_cast<size_t>(peers.rank())]);
  if (last) saved.state.scalars = {{"loss", std::nan("")}};
  const std::string error = error_message([&] { save_checkpoint(root.path(), 7, saved.state, peers); });
  EXPECT_THAT(error, HasSubstr("not finite"));
  for (const std::string& other : peers.gather(error)) EXPECT_EQ(other, error);
  EXPECT_EQ(find_latest(root.path(), peers), std::nullopt);
  all->barrier();
}

}  // namespace
}  // namespace partita::internal
