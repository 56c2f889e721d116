// Save and load on real ranks: what threads share in checkpoint_test.cc goes through the communicator's gather here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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

// On each rank and in each direction; a value that only the last rank reads ends the load on all of them.
TEST(CheckpointRanks, LoadInAnotherPrecision) {
  const auto all = test_world().group("all", test_ranks());
  CommunicatorPeers peers(*all);
  const SharedDirectory root(peers);
  const auto rank = static_cast<size_t>(peers.rank());
  const auto tensors = [](DType dtype) {
    return std::vector<TensorInfo>{{"model/w", {61, 7}, dtype}, {"adamw.m/w", {61, 7}, dtype}, {"model/b", {9}, dtype}};
  };
  std::vector<std::vector<std::byte>> bytes;
  for (const TensorInfo& tensor : tensors(DType::fp32)) {
    bytes.emplace_back(static_cast<size_t>(tensor.count()) * sizeof(float));
    for (size_t i = 0; i < bytes.back().size(); i += sizeof(float)) {
      const float value = std::sin(static_cast<float>(i));
      std::memcpy(bytes.back().data() + i, &value, sizeof value);
    }
  }
  const GlobalValues values(tensors(DType::fp32), bytes);
  RankMemory saved = std::move(random_layout(values.tensors(), peers.size(), 1)[rank]);
  saved.fill(values);
  const auto folder = save_checkpoint(root.path(), 7, saved.state, peers);

  RankMemory narrow = std::move(random_layout(tensors(DType::bf16), peers.size(), 2)[rank]);
  (void)load_checkpoint(folder, narrow.state, peers);
  const GlobalValues rounded = converted(values, tensors(DType::bf16));
  EXPECT_TRUE(narrow.holds(rounded));
  const auto again = save_checkpoint(root.path(), 8, narrow.state, peers);
  RankMemory wide = std::move(random_layout(tensors(DType::fp32), peers.size(), 3)[rank]);
  (void)load_checkpoint(again, wide.state, peers);
  EXPECT_TRUE(wide.holds(converted(rounded, tensors(DType::fp32))));

  const float large = 1e6F;
  std::memcpy(bytes[2].data() + 8 * sizeof large, &large, sizeof large);
  saved.fill(GlobalValues(tensors(DType::fp32), bytes));
  const auto beyond = save_checkpoint(root.path(), 9, saved.state, peers);
  RankMemory wanted;
  wanted.state.tensors = tensors(DType::fp16);
  wanted.add(0, {0, 61, 0, 7});
  if (peers.rank() == peers.size() - 1) wanted.add(2, {0, 1, 8, 1});
  const std::string error = error_message([&] { (void)load_checkpoint(beyond, wanted.state, peers); });
  EXPECT_THAT(error, HasSubstr("'model/b'"));
  EXPECT_THAT(error, HasSubstr("holds 1000000 in fp32, which is beyond the range of fp16"));
  EXPECT_TRUE(wanted.untouched());
  all->barrier();
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
