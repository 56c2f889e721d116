#include "partita/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <cmath>
#include <functional>

#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/safetensors.h"
#include "tests/checkpoint/saving.h"
#include "tests/checkpoint/test_state.h"
#include "tests/checkpoint/thread_peers.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// What every rank threw when `ranks` loaded it; their memory must be as it was then.
std::vector<std::string> load_errors(const fs::path& folder, const std::vector<TensorInfo>& tensors, int ranks) {
  std::vector<RankMemory> layout = random_layout(tensors, ranks, 5);
  auto errors = errors_of_ranks(ranks, [&](Peers& peers) {
    (void)load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers);
  });
  for (size_t rank = 0; rank < layout.size(); ++rank)
    EXPECT_TRUE(errors[rank].empty() || layout[rank].untouched()) << "half loaded on rank " << rank;
  return errors;
}

// Cut by rows, by columns, into the flat slices of ZeRO, and into slices of both.
TEST(Checkpoint, AnyLayoutLoadsAnyOther) {
  uint32_t seed = 0;
  for (const Cut written : kCuts)
    for (const Cut read : kCuts) {
      const int writers = 1 + static_cast<int>(seed % 5), readers = 1 + static_cast<int>(seed / 5 % 4);
      const TemporaryDirectory root;
      const GlobalValues values(odd_tensors(), ++seed);
      const fs::path folder = save(root.path(), 100, values, writers, seed, {}, written);
      std::vector<RankMemory> layout = random_layout(values.tensors(), readers, seed + 100, read);
      run_ranks(readers, [&](Peers& peers) {
        const json scalars = load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers);
        EXPECT_EQ(scalars["step"], 100);
        EXPECT_EQ(scalars["seed"].get<uint64_t>(), 0xFFFFFFFFFFFFFFFFU);
        EXPECT_EQ(scalars["loss"].get<double>(), 0.1);
      });
      for (const RankMemory& rank : layout)
        EXPECT_TRUE(rank.holds(values)) << writers << " to " << readers << ", cut " << int(written) << " to "
                                        << int(read);
      EXPECT_THAT(verify_checkpoint(folder), IsEmpty());
    }
}

TEST(Checkpoint, RanksMayWantTheSameAndOnlyAPart) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  const fs::path folder = save(root.path(), 1, values, 3);
  std::vector<RankMemory> layout(2);
  layout[0] = whole_layout(values.tensors());
  layout[1].state.tensors = values.tensors();
  layout[1].add(6, {0, 1, 17, 900});
  layout[1].add(6, {0, 1, 500, 20});
  layout[1].add(0, {5, 40, 2, 3});
  run_ranks(
      2, [&](Peers& peers) { (void)load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers); });
  EXPECT_TRUE(layout[0].holds(values));
  EXPECT_TRUE(layout[1].holds(values));
}

TEST(Checkpoint, OneRankWritesPlainTensors) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  RankMemory rank = whole_layout(values.tensors());
  rank.fill(values);
  Alone alone;
  const fs::path folder = save_checkpoint(root.path(), 3, rank.state, alone);
  const SafetensorsFile file(folder / "rank-00000.safetensors");
  const SafetensorsEntry& entry = file.at("model/embedding.token.weight");
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{61, 7}));
  EXPECT_TRUE(std::ranges::equal(file.bytes(entry), values.box(0, {0, 61, 0, 7})));
}

// What another program finds in the files: each part is a matrix of its own.
TEST(Checkpoint, PartsAreMatrices) {
  const TemporaryDirectory root;
  const GlobalValues values({{"w", {4, 6}, DType::fp32}, {"b", {6}, DType::fp32}}, 4);
  std::vector<RankMemory> layout(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto half = static_cast<int64_t>(rank) * 3;
    layout[rank].state.tensors = values.tensors();
    layout[rank].add(0, {0, 4, half, 3});
    layout[rank].add(1, {0, 1, half, 3});
    layout[rank].fill(values);
  }
  run_ranks(2, [&](Peers& peers) {
    (void)save_checkpoint(root.path(), 3, layout[static_cast<size_t>(peers.rank())].state, peers);
  });
  const SafetensorsFile file(root.path() / "step-00000003/rank-00001.safetensors");
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.at("w[0:4,3:6]").shape, (std::vector<int64_t>{4, 3}));
  EXPECT_TRUE(std::ranges::equal(file.bytes(file.at("w[0:4,3:6]")), values.box(0, {0, 4, 3, 3})));
  EXPECT_EQ(file.at("b[0:1,3:6]").shape, (std::vector<int64_t>{1, 3}));
}

// A piece of two chunks: readers touch both, or one, and only who touches a damaged one is refused.
TEST(Checkpoint, LargePiecesAreCheckedByTheirChunks) {
  const TemporaryDirectory root;
  const int64_t count = 2 * kChunkBytes - 5;
  const GlobalValues values({{"large", {count}, DType::uint8}}, 2);
  RankMemory writer = whole_layout(values.tensors());
  writer.fill(values);
  Alone alone;
  const fs::path folder = save_checkpoint(root.path(), 1, writer.state, alone);
  EXPECT_EQ(read_manifest(folder).tensors[0].pieces[0].checksums.size(), 2U);
  const auto load = [&](int64_t begin, int64_t length) {
    RankMemory reader;
    reader.state.tensors = values.tensors();
    reader.add(0, {0, 1, begin, length});
    (void)load_checkpoint(folder, reader.state, alone);
    return reader.holds(values);
  };
  EXPECT_TRUE(load(0, count));
  EXPECT_TRUE(load(kChunkBytes - 5, 10));
  flip_byte(folder / rank_file_name(0), static_cast<int64_t>(fs::file_size(folder / rank_file_name(0))) - 1);
  EXPECT_TRUE(load(0, kChunkBytes));
  EXPECT_THROW((void)load(0, kChunkBytes + 1), Error);
  EXPECT_THROW((void)load(kChunkBytes, 1), Error);
}

TEST(Checkpoint, IgnoredTensorsAreNotRead) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  const fs::path folder = save(root.path(), 1, values, 2);
  std::vector<TensorInfo> weights;
  for (const TensorInfo& tensor : values.tensors())
    if (!tensor.name.starts_with("adamw.")) weights.push_back(tensor);
  RankMemory rank = whole_layout(weights);
  Alone alone;
  EXPECT_THAT([&] { (void)load_checkpoint(folder, rank.state, alone); },
              testing::ThrowsMessage<Error>(HasSubstr("not in this model: adamw.m/final_norm.bias")));
  (void)load_checkpoint(folder, rank.state, alone, {.ignore = {"adamw."}});
  EXPECT_FALSE(rank.untouched());
  EXPECT_EQ(read_scalars(folder)["step"], 1);
}

TEST(Checkpoint, OfAnotherModelIsRefusedByName) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 4);
  const fs::path folder = save(root.path(), 1, values, 2);
  std::vector<TensorInfo> other = odd_tensors();
  other[0].shape = {61, 8};
  other[1].name = "model/final_norm.weight";
  other[6].dtype = DType::fp32;
  EXPECT_THAT(load_errors(folder, other, 3),
              Each(AllOf(HasSubstr(folder.string()), HasSubstr("another model"),
                         HasSubstr("missing from it: model/final_norm.weight"),
                         HasSubstr("not in this model: model/final_norm.bias"),
                         HasSubstr("model/embedding.token.weight [61, 7] instead of [61, 8]"),
                         HasSubstr("counts int64 instead of fp32"))));
}

TEST(Checkpoint, DamageIsRefusedOnAllRanks) {
  const GlobalValues values(odd_tensors(), 9);
  struct Case {
    const char* what;
    std::function<void(const fs::path&)> damage;
    std::string message;
  };
  const fs::path file = rank_file_name(1);
  const std::vector<Case> cases = {
      {"cut short", [&](const fs::path& f) { fs::resize_file(f / file, fs::file_size(f / file) - 1); },
       "is damaged: it has"},
      {"missing", [&](const fs::path& f) { fs::remove(f / file); }, "rank-00001.safetensors is missing"},
      {"a changed number", [&](const fs::path& f) { flip_byte(f / file, int64_t(fs::file_size(f / file)) - 1); },
       "does not match"},
      {"a changed header", [&](const fs::path& f) { flip_byte(f / file, 9); }, "rank-00001.safetensors"},
      {"no manifest", [&](const fs::path& f) { fs::remove(f / kManifestName); }, "is not a checkpoint"},
      {"half a manifest", [&](const fs::path& f) { fs::resize_file(f / kManifestName, 300); },
       "manifest.json:20:1: not valid JSON"},
  };
  for (const Case& c : cases) {
    const TemporaryDirectory root;
    const fs::path folder = save(root.path(), 1, values, 2, 3);
    c.damage(folder);
    const auto errors = load_errors(folder, values.tensors(), 2);
    EXPECT_THAT(errors, Each(HasSubstr(c.message))) << c.what;
    EXPECT_EQ(errors[0], errors[1]) << c.what;
    EXPECT_THAT(verify_checkpoint(folder), testing::Contains(HasSubstr(c.message))) << c.what;
  }
}

TEST(Checkpoint, EveryFlippedByteOfTheDataIsSeen) {
  const TemporaryDirectory root;
  const GlobalValues values({{"w", {40}, DType::uint8}}, 9);
  RankMemory rank = whole_layout(values.tensors());
  rank.fill(values);
  Alone alone;
  const fs::path folder = save_checkpoint(root.path(), 1, rank.state, alone), file = folder / rank_file_name(0);
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (int64_t byte = size - 40; byte < size; ++byte) {
    flip_byte(file, byte);
    EXPECT_THAT(load_errors(folder, values.tensors(), 1), Each(HasSubstr("checksum of 'w'"))) << byte;
    flip_byte(file, byte);
  }
  EXPECT_THAT(verify_checkpoint(folder), IsEmpty());
}

TEST(Checkpoint, FindLatestPassesOverPartialAndDamaged) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 9);
  const fs::path first = save(root.path(), 10, values, 2);
  save(root.path(), 20, values, 2);
  save(root.path(), 30, values, 2);
  EXPECT_EQ(find_latest(root.path()), root.path() / "step-00000030");
  fs::rename(root.path() / "step-00000030", root.path() / "step-00000030.partial");  // killed before the rename
  EXPECT_EQ(find_latest(root.path()), root.path() / "step-00000020");
  fs::resize_file(root.path() / "step-00000020/rank-00001.safetensors", 100);
  EXPECT_EQ(find_latest(root.path()), first);
  run_ranks(2, [&](Peers& peers) { EXPECT_EQ(find_latest(root.path(), peers), first); });
}

// A run must not begin again over checkpoints that nobody can read, nor pass over the newest because a disk is away.
TEST(Checkpoint, FindLatestDoesNotTakeUnusableForNone) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 9);
  const fs::path first = save(root.path(), 10, values, 1), second = save(root.path(), 20, values, 1);
  const auto find = [&] { (void)find_latest(root.path()); };
  const std::string manifest = read_file(second / kManifestName);
  write_file(second / kManifestName, "{\"format\": \"partita checkpoint\", \"version\": 4}");
  EXPECT_THAT(find, testing::ThrowsMessage<Error>(AllOf(HasSubstr("step-00000020"), HasSubstr("format 4;"))));
  // A manifest that cannot be opened: too long a chain of links.
  fs::remove(second / kManifestName);
  fs::create_symlink(kManifestName, second / kManifestName);
  EXPECT_THAT(find, testing::ThrowsMessage<Error>(HasSubstr("cannot read")));
  fs::remove(second / kManifestName);
  EXPECT_EQ(find_latest(root.path()), first) << "a folder without a manifest is damaged";
  write_file(first / kManifestName, "{}");
  EXPECT_THAT(find, testing::ThrowsMessage<Error>(HasSubstr("no checkpoint in")));
  fs::remove_all(first);
  EXPECT_EQ(set_aside(second), root.path() / "step-00000020.damaged");
  EXPECT_THAT(find, testing::ThrowsMessage<Error>(HasSubstr("step-00000020.damaged")));
  fs::create_directory(second);
  EXPECT_EQ(set_aside(second), root.path() / "step-00000020-2.damaged");
  fs::create_symlink("folder", root.path() / "folder");
  EXPECT_THAT([&] { (void)find_latest(root.path() / "folder"); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot list the checkpoints")));
}

// Retention keeps what it cannot read, and does not count it.
TEST(Checkpoint, RetentionLeavesWhatItCannotUse) {
  const TemporaryDirectory root;
  const GlobalValues values({{"w", {5}, DType::fp32}}, 9);
  for (int64_t step : {10, 20, 30}) save(root.path(), step, values, 1);
  for (const char* name : {"step-00000010", "step-00000030"}) write_file(root.path() / name / kManifestName, "{}");
  testing::internal::CaptureStderr();
  for (int64_t step : {40, 45, 50}) save(root.path(), step, values, 1, 1, {.keep_last = 2});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("2 older checkpoints are kept because they cannot be used; the newest: " +
                              (root.path() / "step-00000030").string()));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << "one line for all, not one at every save: " << said;
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_steps(root.path())) steps.push_back(folder.step);
  EXPECT_THAT(steps, testing::ElementsAre(10, 30, 45, 50));
}

TEST(Checkpoint, DamageStaysDamageAmongRanks) {
  const auto thrown = [](const std::vector<char>& kinds) {
    std::vector<std::string> found(kinds.size());
    run_ranks(static_cast<int>(kinds.size()), [&](Peers& peers) {
      const auto rank = static_cast<size_t>(peers.rank());
      try {
        (void)agree(peers, [&]() -> std::string {
          if (kinds[rank] == 'd') damaged("bytes of {}", rank);
          if (kinds[rank] == 'e') fail("rights of {}", rank);
          return "";
        });
        found[rank] = "nothing";
      } catch (const Damaged& error) {
        found[rank] = std::string("damage: ") + error.what();
      } catch (const Error& error) {
        found[rank] = std::string("error: ") + error.what();
      }
    });
    EXPECT_THAT(found, Each(found[0]));
    return found[0];
  };
  EXPECT_EQ(thrown({'-', '-'}), "nothing");
  EXPECT_EQ(thrown({'-', 'd', 'd'}), "damage: rank 1: bytes of 1");
  EXPECT_EQ(thrown({'d'}), "damage: bytes of 0");
  EXPECT_EQ(thrown({'-', 'e'}), "error: rank 1: rights of 1");
  EXPECT_EQ(thrown({'d', 'e'}), "error: rank 0: bytes of 0");
}

TEST(Checkpoint, IsFoundByTheFolderAUserNames) {
  const TemporaryDirectory run;
  const GlobalValues values(odd_tensors(), 9);
  const auto resolve = [](const fs::path& path) { return [path] { (void)resolve_checkpoint(path); }; };
  EXPECT_THAT(resolve(run.path()), testing::ThrowsMessage<Error>(HasSubstr("holds no complete checkpoint")));
  EXPECT_THAT(resolve(run / "missing"), testing::ThrowsMessage<Error>(HasSubstr("holds no complete checkpoint")));
  const fs::path first = save(run / "checkpoints", 10, values, 1), second = save(run / "checkpoints", 20, values, 1);
  EXPECT_EQ(resolve_checkpoint(first), first);
  EXPECT_EQ(resolve_checkpoint(run.path()), second);
  EXPECT_EQ(resolve_checkpoint(run / "checkpoints"), second);
}

TEST(Checkpoint, TheNextSaveRemovesWhatAKilledOneLeft) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 9);
  fs::create_directory(root.path() / "step-00000020.partial");
  write_file(root.path() / "step-00000020.partial/rank-00001.safetensors.123-0.tmp", "half");
  fs::create_directory(root.path() / "step-00000015.partial");
  save(root.path(), 20, values, 2);
  EXPECT_FALSE(fs::exists(root.path() / "step-00000020.partial"));
  EXPECT_FALSE(fs::exists(root.path() / "step-00000015.partial"));
  EXPECT_THAT(verify_checkpoint(root.path() / "step-00000020"), IsEmpty());
}

TEST(Checkpoint, KeepsWhatRetentionSays) {
  const TemporaryDirectory root;
  const GlobalValues values({{"w", {5}, DType::fp32}}, 9);
  for (int64_t step = 10; step <= 60; step += 10)
    save(root.path(), step, values, 2, 1, {.keep_last = 2, .keep_every = 30});
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_steps(root.path())) steps.push_back(folder.step);
  EXPECT_THAT(steps, testing::ElementsAre(30, 50, 60));
  for (const auto& entry : fs::directory_iterator(root.path()))
    EXPECT_FALSE(entry.path().string().ends_with(".partial")) << entry.path();
}

TEST(Checkpoint, TheSameStepAgainReplacesIt) {
  const TemporaryDirectory root;
  const GlobalValues old_values(odd_tensors(), 1), new_values(odd_tensors(), 2);
  save(root.path(), 10, old_values, 3);
  const fs::path folder = save(root.path(), 10, new_values, 2);
  RankMemory rank = whole_layout(new_values.tensors());
  Alone alone;
  (void)load_checkpoint(folder, rank.state, alone);
  EXPECT_TRUE(rank.holds(new_values));
  EXPECT_FALSE(fs::exists(folder / rank_file_name(2)));
  EXPECT_FALSE(fs::exists(partial_path(folder)));
}

TEST(Checkpoint, WrongStatesAreRefusedBeforeWriting) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 1);
  save(root.path(), 10, values, 2);
  const auto layout = [&] { return random_layout(values.tensors(), 3, 8); };

  std::vector<RankMemory> gap = layout();
  const auto filled =
      std::ranges::find_if(gap[1].state.pieces, [](const Piece& piece) { return piece.box.count() > 0; });
  ASSERT_NE(filled, gap[1].state.pieces.end());
  const Piece lost = *filled;
  gap[1].state.pieces.erase(filled);
  expect_failed_save(root.path(), gap,
                     "'" + values.tensors()[static_cast<size_t>(lost.tensor)].name + "' are stored by no rank");

  std::vector<RankMemory> overlap = layout();
  overlap[0].add(lost.tensor, {lost.box.row, 1, lost.box.column, 1});
  expect_failed_save(root.path(), overlap, "are stored twice");

  std::vector<RankMemory> beyond = layout();
  beyond[2].add(1, {0, 1, 6, 2});
  expect_failed_save(root.path(), beyond, "'model/final_norm.bias'");

  std::vector<RankMemory> scalars = layout();
  scalars[2].state.scalars = {{"step", 3}};
  expect_failed_save(root.path(), scalars, "rank 2 and rank 0 do not save the same scalars");

  std::vector<RankMemory> tensors = layout();
  tensors[1].state.tensors[3].dtype = DType::fp16;
  expect_failed_save(root.path(), tensors, "rank 1 and rank 0 do not save the same tensors");

  std::vector<RankMemory> nan = layout();
  for (RankMemory& rank : nan) rank.state.scalars = {{"loss", std::nan("")}};
  expect_failed_save(root.path(), nan, "not finite");
}

TEST(Checkpoint, ARootThatIsAFileIsRefused) {
  const TemporaryDirectory folder;
  write_file(folder.path() / "root", "text");
  const GlobalValues values({{"w", {5}, DType::fp32}}, 9);
  std::vector<RankMemory> layout = random_layout(values.tensors(), 2, 1);
  const auto errors = errors_of_ranks(2, [&](Peers& peers) {
    save_checkpoint(folder.path() / "root", 1, layout[static_cast<size_t>(peers.rank())].state, peers);
  });
  EXPECT_THAT(errors, Each(HasSubstr((folder.path() / "root").string())));
  EXPECT_EQ(read_file(folder.path() / "root"), "text");
}

}  // namespace
}  // namespace partita::internal
