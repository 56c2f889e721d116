#include "partita/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/memory_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;

// Memory that the host reaches by calls alone.
class FarMemory final : public PieceMemory {
 public:
  explicit FarMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  void read(int64_t offset, std::span<std::byte> out) const override {
    longest_ = std::max(longest_, out.size());
    std::ranges::copy(bytes_.subspan(static_cast<size_t>(offset), out.size()), out.begin());
  }
  void write(int64_t offset, std::span<const std::byte> in) override {
    std::ranges::copy(in, bytes_.subspan(static_cast<size_t>(offset), in.size()).begin());
  }
  [[nodiscard]] int64_t longest() const { return static_cast<int64_t>(longest_); }

 private:
  std::span<std::byte> bytes_;
  mutable size_t longest_ = 0;
};

// The pieces that lie beyond the host's reach, made so.
std::vector<std::shared_ptr<FarMemory>> move_away(RankMemory& rank) {
  std::vector<std::shared_ptr<FarMemory>> far;
  for (size_t i = 0; i < rank.memory.size(); ++i) {
    far.push_back(std::make_shared<FarMemory>(rank.memory[i]));
    rank.state.pieces[i].data = nullptr;
    rank.state.pieces[i].elsewhere = far.back();
  }
  return far;
}

TEST(FarPieces, PiecesMayLieWhereTheHostCannotReach) {
  const TemporaryDirectory root;
  for (int ranks : {1, 3}) {
    const GlobalValues values(odd_tensors(), static_cast<uint32_t>(ranks));
    const fs::path plain = save(root / "plain", ranks, values, ranks);
    std::vector<RankMemory> layout = random_layout(values.tensors(), ranks, 1);
    for (RankMemory& rank : layout) {
      rank.fill(values);
      rank.state.scalars = {{"step", ranks}, {"seed", 0xFFFFFFFFFFFFFFFFU}, {"loss", 0.1}};
      move_away(rank);
    }
    run_ranks(ranks, [&](Peers& peers) {
      (void)save_checkpoint(root / "far", ranks, layout[static_cast<size_t>(peers.rank())].state, peers, {});
    });
    const fs::path far = root / "far" / step_folder_name(ranks);
    for (const auto& entry : fs::directory_iterator(plain))
      EXPECT_EQ(read_file(far / entry.path().filename()), read_file(entry.path())) << entry.path();

    std::vector<RankMemory> back = random_layout(values.tensors(), 2, 9);
    for (RankMemory& rank : back) move_away(rank);
    run_ranks(2,
              [&](Peers& peers) { (void)load_checkpoint(far, back[static_cast<size_t>(peers.rank())].state, peers); });
    for (const RankMemory& rank : back) EXPECT_TRUE(rank.holds(values));
  }
}

// Converted in parts: the memory that the host cannot address gets the same bytes as memory that it can.
TEST(FarPieces, MayBeOfAnotherPrecision) {
  const TemporaryDirectory root;
  const int64_t count = 3 * (kChunkBytes / 4) + 5;
  const std::vector<TensorInfo> stored = {{"w", {count}, DType::fp32}}, wanted = {{"w", {count}, DType::bf16}};
  std::vector<std::byte> bytes(static_cast<size_t>(count) * 4);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 4 == 3 ? 0x3F : i * 7);
  const GlobalValues values(stored, {bytes});
  RankMemory rank = whole_layout(stored);
  rank.fill(values);
  Alone alone;
  const fs::path folder = save_checkpoint(root.path(), 1, rank.state, alone, {});
  RankMemory back = whole_layout(wanted);
  move_away(back);
  (void)load_checkpoint(folder, back.state, alone);
  EXPECT_TRUE(back.holds(converted(values, wanted)));
}

// However large a piece is, the host holds one chunk of it.
TEST(FarPieces, WhatLiesFarIsCopiedAChunkAtATime) {
  const TemporaryDirectory root;
  const GlobalValues values({{"large", {2 * kChunkBytes + 5}, DType::uint8}}, 3);
  RankMemory rank = whole_layout(values.tensors());
  rank.fill(values);
  const auto far = move_away(rank);
  Alone alone;
  const fs::path folder = save_checkpoint(root.path(), 1, rank.state, alone, {});
  EXPECT_EQ(far.front()->longest(), kChunkBytes);
  RankMemory back = whole_layout(values.tensors());
  move_away(back);
  (void)load_checkpoint(folder, back.state, alone);
  EXPECT_TRUE(back.holds(values));
}

#ifndef PARTITA_NO_MEMORY_LIMIT
// Memory of another device: it has values, and takes none of the host.
class DeviceMemory final : public PieceMemory {
 public:
  void read(int64_t offset, std::span<std::byte> out) const override {
    for (size_t i = 0; i < out.size(); i += 4096)
      out[i] = static_cast<std::byte>(offset + static_cast<int64_t>(i) / 4096);
  }
  void write(int64_t, std::span<const std::byte>) override {}
};

// A rank's 480 MB pass through a chunk of 16 MiB and two buffers of 4 MiB; ranks in turns take no more together.
TEST(FarPieces, SavesTakeLittleMemory) {
  const TemporaryDirectory root;
  const int ranks = 3;
  const MemoryLimit limit(uint64_t{96} << 20);  // with 8 MiB of stack a thread, two threads a rank
  EXPECT_THROW(std::vector<std::byte>(160'000'000), std::bad_alloc) << "a rank's share does not fit";
  run_ranks(ranks, [&](Peers& peers) {
    CheckpointContents state;
    state.tensors = {{"w", {ranks, 40'000'000}, DType::fp32}};
    state.pieces = {{.tensor = 0,
                     .box = {.row = peers.rank(), .rows = 1, .columns = 40'000'000},
                     .elsewhere = std::make_shared<DeviceMemory>()}};
    (void)save_checkpoint(root.path(), 1, state, peers, {.turn = peers.rank(), .turns = ranks});
  });
  EXPECT_EQ(read_manifest(root / step_folder_name(1)).files.size(), size_t{ranks});
}
#endif

}  // namespace
}  // namespace partita::internal
