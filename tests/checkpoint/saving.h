// Helpers that save the checkpoints used in tests.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/folders.h"
#include "tests/checkpoint/test_state.h"
#include "tests/checkpoint/thread_peers.h"

namespace partita::internal::test {

// Saves these values, cut at random over `ranks`; returns the folder.
inline std::filesystem::path save(const std::filesystem::path& root, int64_t step, const GlobalValues& values,
                                  int ranks, uint32_t seed = 1, const Retention& retention = {}, Cut cut = Cut::mixed) {
  std::vector<RankMemory> layout = random_layout(values.tensors(), ranks, seed, cut);
  for (RankMemory& rank : layout) {
    rank.fill(values);
    rank.state.scalars = {{"step", step}, {"seed", 0xFFFFFFFFFFFFFFFFU}, {"loss", 0.1}};
  }
  run_ranks(ranks, [&](Peers& peers) {
    const CheckpointContents& state = layout[static_cast<size_t>(peers.rank())].state;
    EXPECT_EQ(save_checkpoint(root, step, state, peers, {.retention = retention}), root / step_folder_name(step));
  });
  return root / step_folder_name(step);
}

// A save that fails on one rank fails on all with one message, and leaves what was there.
inline void expect_failed_save(
    const std::filesystem::path& root, std::vector<RankMemory>& layout, const std::string& message,
    const std::function<void(Peers&)>& before = [](Peers&) {}) {
  const auto existing = snapshot(root);
  const auto errors = errors_of_ranks(static_cast<int>(layout.size()), [&](Peers& peers) {
    before(peers);
    save_checkpoint(root, 20, layout[static_cast<size_t>(peers.rank())].state, peers, {.retention = {.keep_last = 1}});
  });
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr(message)));
  EXPECT_THAT(errors, testing::Each(errors[0]));
  EXPECT_EQ(snapshot(root), existing);
  EXPECT_FALSE(std::filesystem::exists(partial_path(root / step_folder_name(20))));
}

}  // namespace partita::internal::test
