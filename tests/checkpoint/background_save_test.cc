// Saves that overlap with changes of what is saved, and files that checkpoints share.
#include "partita/checkpoint/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A barrier before the copy, so that a test decides when it happens.
class Gate {
 public:
  void open() { opened_.set_value(); }
  [[nodiscard]] std::function<void()> entry() const {
    return [future = future_] { future.wait(); };
  }

 private:
  std::promise<void> opened_;
  std::shared_future<void> future_ = opened_.get_future().share();
};

struct SavingRank {
  explicit SavingRank(CheckpointContents& contents) : memory(static_cast<size_t>(snapshot_bytes(contents))) {}
  std::vector<std::byte> memory;
};

void scribble(RankMemory& rank) {
  for (std::vector<std::byte>& bytes : rank.memory) std::ranges::fill(bytes, std::byte{0x5A});
}

int64_t links_of(const fs::path& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_nlink) : -1;
}

void mark_constant(RankMemory& rank, int tensor) {
  for (Piece& piece : rank.state.pieces) piece.constant = piece.constant || piece.tensor == tensor;
}

TEST(BackgroundSave, StoresWhatWasThereWhenItBegan) {
  for (const int ranks : {1, 2, 5}) {
    const TemporaryDirectory root;
    const GlobalValues values(odd_tensors(), static_cast<uint32_t>(ranks));
    std::vector<RankMemory> layout = random_layout(values.tensors(), ranks, 3);
    for (RankMemory& rank : layout) rank.fill(values);
    run_ranks(ranks, [&](Peers& peers) {
      RankMemory& rank = layout[static_cast<size_t>(peers.rank())];
      SavingRank saving(rank.state);
      BackgroundSave save(root.path(), 7, rank.state, saving.memory, peers);
      save.wait_copied();
      scribble(rank);
      // As a run does: it goes on when all ranks are idle.
      bool complete = false;
      for (int step = 0; !complete; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto idle = agree(peers, [&] { return std::string(save.is_idle() ? "1" : ""); });
        if (std::ranges::none_of(idle, &std::string::empty)) complete = save.advance(peers);
        ASSERT_LT(step, 20'000);
      }
      EXPECT_EQ(save.folder(), root / step_folder_name(7));
    });
    const fs::path folder = root / step_folder_name(7);
    EXPECT_THAT(verify_checkpoint(folder), IsEmpty());
    RankMemory reader = whole_layout(values.tensors());
    Alone alone;
    (void)load_checkpoint(folder, reader.state, alone);
    EXPECT_TRUE(reader.holds(values)) << ranks;
  }
}

// Until the copy is made the values must not change: wait_copied() blocks, and not a moment longer than the copy.
TEST(BackgroundSave, TellsWhenTheCopyIsMade) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  RankMemory rank = whole_layout(values.tensors());
  rank.fill(values);
  SavingRank saving(rank.state);
  Alone alone;
  Gate gate;
  BackgroundSave save(root.path(), 1, rank.state, saving.memory, alone, {.enter = gate.entry()});
  EXPECT_FALSE(save.is_copied());
  EXPECT_FALSE(save.is_idle());
  auto waiting = std::async(std::launch::async, [&] { save.wait_copied(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  gate.open();
  waiting.get();
  EXPECT_TRUE(save.is_copied());
  save.finish(alone);
  EXPECT_THAT(verify_checkpoint(save.folder()), IsEmpty());
}

TEST(BackgroundSave, NothingIsCompleteBeforeAllRanksHaveWritten) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  const fs::path before = save(root.path(), 1, values, 1);
  std::vector<RankMemory> layout = random_layout(values.tensors(), 2, 3);
  for (RankMemory& rank : layout) rank.fill(values);
  Gate gate;
  run_ranks(2, [&](Peers& peers) {
    RankMemory& rank = layout[static_cast<size_t>(peers.rank())];
    SavingRank saving(rank.state);
    BackgroundSave save(root.path(), 2, rank.state, saving.memory, peers,
                        {.retention = {.keep_last = 1}, .enter = peers.rank() == 1 ? gate.entry() : nullptr});
    if (peers.rank() == 0) {
      while (!save.is_idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(find_latest(root.path()), before);
      gate.open();
    }
    save.finish(peers);
  });
  EXPECT_EQ(find_latest(root.path()), root / step_folder_name(2));
  EXPECT_FALSE(fs::exists(before));  // the older one goes last
}

// The disk is full for one rank's file: all say so, and what was there stays.
TEST(BackgroundSave, AFailureIsOneOfAllRanks) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  save(root.path(), 1, values, 1);
  const auto existing = snapshot(root.path());
  std::vector<RankMemory> layout = random_layout(values.tensors(), 3, 3);
  for (RankMemory& rank : layout) rank.fill(values);
  const FileSizeLimit full(100);
  const auto errors = errors_of_ranks(3, [&](Peers& peers) {
    RankMemory& rank = layout[static_cast<size_t>(peers.rank())];
    SavingRank saving(rank.state);
    BackgroundSave save(root.path(), 2, rank.state, saving.memory, peers, {.retention = {.keep_last = 1}});
    save.finish(peers);
  });
  EXPECT_THAT(errors, Each(HasSubstr("ulimit -f")));
  EXPECT_THAT(errors, Each(errors[0]));
  EXPECT_EQ(snapshot(root.path()), existing);
}

TEST(BackgroundSave, ACopyThatFailsIsAFailureOfTheSave) {
  class Unreadable final : public PieceMemory {
    void read(int64_t, std::span<std::byte>) const override { fail("the device is gone"); }
    void write(int64_t, std::span<const std::byte>) override {}
  };
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  std::vector<RankMemory> layout = random_layout(values.tensors(), 2, 3);
  for (RankMemory& rank : layout) rank.fill(values);
  for (Piece& piece : layout[1].state.pieces) {
    piece.data = nullptr;
    piece.elsewhere = std::make_shared<Unreadable>();
  }
  const auto errors = errors_of_ranks(2, [&](Peers& peers) {
    RankMemory& rank = layout[static_cast<size_t>(peers.rank())];
    SavingRank saving(rank.state);
    BackgroundSave save(root.path(), 2, rank.state, saving.memory, peers);
    save.wait_copied();  // does not hang
    save.finish(peers);
  });
  EXPECT_THAT(errors, Each(HasSubstr("the device is gone")));
  EXPECT_THAT(snapshot(root.path()), IsEmpty());
}

// It neither copies nor writes on: of three pieces only the one that is being copied is read.
TEST(BackgroundSave, IsGivenUp) {
  struct Reads {
    std::atomic<int> count = 0;
    std::promise<void> begun;
  };
  class Slow final : public PieceMemory {
   public:
    explicit Slow(Reads& reads) : reads_(reads) {}
    void read(int64_t, std::span<std::byte>) const override {
      if (reads_.count++ == 0) reads_.begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    void write(int64_t, std::span<const std::byte>) override {}

   private:
    Reads& reads_;
  };
  const TemporaryDirectory root;
  Reads reads;
  CheckpointContents state;
  state.tensors = {{"w", {3, 8}, DType::fp32}};
  for (int row = 0; row < 3; ++row)
    state.pieces.push_back(
        {.tensor = 0, .box = {.row = row, .rows = 1, .columns = 8}, .elsewhere = std::make_shared<Slow>(reads)});
  SavingRank saving(state);
  Alone alone;
  {
    const BackgroundSave save(root.path(), 1, state, saving.memory, alone);
    reads.begun.get_future().wait();
  }
  EXPECT_EQ(reads.count, 1);
  EXPECT_THAT(snapshot(root.path()), IsEmpty());
}

// A chain of checkpoints whose frozen part is on disk once, whatever is removed.
TEST(ConstantPieces, AreSharedByTheCheckpointsOfARun) {
  const TemporaryDirectory root;
  GlobalValues values(odd_tensors(), 4);
  for (const int ranks : {1, 2}) {
    std::vector<RankMemory> layout = random_layout(values.tensors(), ranks, 3);
    for (int64_t step = 1; step <= 4; ++step) {
      // All but the two large tensors change.
      const GlobalValues next(odd_tensors(), static_cast<uint32_t>(step));
      run_ranks(ranks, [&](Peers& peers) {
        RankMemory& rank = layout[static_cast<size_t>(peers.rank())];
        rank.fill(next);
        for (size_t i = 0; i < rank.memory.size(); ++i) {
          Piece& piece = rank.state.pieces[i];
          piece.constant = piece.tensor == 0 || piece.tensor == 6;
          if (piece.constant) std::ranges::copy(values.box(piece.tensor, piece.box), rank.memory[i].begin());
        }
        rank.state.scalars = {{"step", step}};
        (void)save_checkpoint(root / std::to_string(ranks), step, rank.state, peers, {.retention = {.keep_last = 2}});
      });
      const fs::path folder = root / std::to_string(ranks) / step_folder_name(step);
      EXPECT_EQ(links_of(folder / "constant-00000.safetensors"), std::min<int64_t>(step, 2)) << ranks;
      EXPECT_EQ(links_of(folder / "rank-00000.safetensors"), 1);
      EXPECT_THAT(verify_checkpoint(folder), IsEmpty());
      RankMemory reader = whole_layout(values.tensors());
      Alone alone;
      (void)load_checkpoint(folder, reader.state, alone);
      for (size_t i = 0; i < reader.memory.size(); ++i) {
        const Piece& piece = reader.state.pieces[i];
        const bool constant = piece.tensor == 0 || piece.tensor == 6;
        EXPECT_EQ(reader.memory[i], (constant ? values : next).box(piece.tensor, piece.box)) << piece.tensor;
      }
    }
  }
}

// What has another value, type or shape, or is damaged, is written anew.
TEST(ConstantPieces, AreNotSharedUnlessTheyAreEqual) {
  const std::vector<TensorInfo> tensors = {{"frozen", {6, 4}, DType::fp16}, {"trained", {5}, DType::fp32}};
  const auto save_alone = [](const fs::path& root, int64_t step, const GlobalValues& values) {
    RankMemory rank = whole_layout(values.tensors());
    rank.fill(values);
    mark_constant(rank, 0);
    Alone alone;
    return save_checkpoint(root, step, rank.state, alone) / "constant-00000.safetensors";
  };
  const GlobalValues first(tensors, 1);
  {
    const TemporaryDirectory root;
    EXPECT_EQ(links_of(save_alone(root.path(), 1, first)), 1);
    EXPECT_EQ(links_of(save_alone(root.path(), 2, first)), 2);
    EXPECT_EQ(links_of(save_alone(root.path(), 3, GlobalValues(tensors, 2))), 1);  // other values
  }
  for (const TensorInfo& other : {TensorInfo{"frozen", {6, 4}, DType::bf16}, {"frozen", {4, 6}, DType::fp16}}) {
    const TemporaryDirectory root;
    (void)save_alone(root.path(), 1, first);
    const GlobalValues same_bytes({other, tensors[1]}, {first.box(0, {0, 6, 0, 4}), first.box(1, {0, 1, 0, 5})});
    EXPECT_EQ(links_of(save_alone(root.path(), 2, same_bytes)), 1);
    EXPECT_THAT(verify_checkpoint(root / step_folder_name(2)), IsEmpty());
  }
  const TemporaryDirectory root;
  const fs::path file = save_alone(root.path(), 1, first);
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(links_of(save_alone(root.path(), 2, first)), 1);
  EXPECT_THAT(verify_checkpoint(root / step_folder_name(2)), IsEmpty());
  // One byte has changed since, which a process that has not read the file finds before it links to it.
  const fs::path next = save_alone(root.path(), 3, GlobalValues(tensors, 9));
  std::string bytes = read_file(next);
  bytes[bytes.size() - 3] ^= 1;
  write_file(next, bytes);
  EXPECT_EQ(links_of(save_alone(root.path(), 4, GlobalValues(tensors, 9))), 1);
  EXPECT_THAT(verify_checkpoint(root / step_folder_name(4)), IsEmpty());
}

// Ranks write in turns: never more than one at a time.
TEST(Turns, LimitHowManyRanksWrite) {
  static std::atomic<int> writing, most;
  writing = most = 0;
  class Counted final : public PieceMemory {
   public:
    void read(int64_t, std::span<std::byte>) const override {
      most = std::max<int>(most, ++writing);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --writing;
    }
    void write(int64_t, std::span<const std::byte>) override {}
  };
  for (const int turns : {1, 4}) {
    writing = most = 0;
    const TemporaryDirectory root;
    run_ranks(4, [&](Peers& peers) {
      CheckpointContents state;
      state.tensors = {{"w", {4, 8}, DType::fp32}};
      const Box row{.row = peers.rank(), .rows = 1, .columns = 8};
      state.pieces = {{.tensor = 0, .box = row, .elsewhere = std::make_shared<Counted>()}};
      (void)save_checkpoint(root.path(), 1, state, peers, {.turn = turns == 1 ? 0 : peers.rank(), .turns = turns});
    });
    EXPECT_EQ(most == 1, turns == 4) << most;
  }
}

}  // namespace
}  // namespace partita::internal
