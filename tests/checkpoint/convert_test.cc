#include "partita/checkpoint/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/compare.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/safetensors.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/memory_limit.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Manifest manifest_of(std::vector<TensorInfo> tensors, int ranks = 1) {
  Manifest manifest{.step = 7, .ranks = ranks, .scalars = {{"step", 7}}};
  for (TensorInfo& tensor : tensors) manifest.tensors.push_back({std::move(tensor), {}});
  return manifest;
}

std::vector<int64_t> bytes_per_file(const Manifest& plan) {
  std::vector<int64_t> bytes(static_cast<size_t>(plan.ranks));
  for (const StoredTensor& tensor : plan.tensors)
    for (const StoredPiece& piece : tensor.pieces)
      bytes[static_cast<size_t>(piece.file)] += piece.count() * size_of(tensor.info.dtype);
  return bytes;
}

TEST(PlanConversion, FilesGetEqualShares) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TensorInfo> tensors;
    int64_t longest_row = 0;
    const int files = 1 + static_cast<int>(random() % 9);
    for (unsigned t = random() % 6; t > 0; --t) {
      TensorInfo info{fmt::format("model/{}", t), {}, random() % 2 ? DType::fp32 : DType::bf16};
      for (unsigned d = random() % 3; d > 0; --d) info.shape.push_back(random() % 40);
      const Box whole = whole_box(info.shape);
      longest_row = std::max(longest_row, (whole.rows < files ? 1 : whole.columns) * size_of(info.dtype));
      tensors.push_back(info);
    }
    Manifest plan = plan_conversion(manifest_of(tensors), {.ranks = files});
    EXPECT_NO_THROW(check_tensors(plan.tensors));  // every element once
    const std::vector<int64_t> bytes = bytes_per_file(plan);
    const auto [least, most] = std::ranges::minmax(bytes);
    // Each end of a share lies within a row of where it should be.
    EXPECT_LE(most - least, 2 * longest_row + 2);
    for (const StoredTensor& tensor : plan.tensors)
      for (const StoredPiece& piece : tensor.pieces) {
        EXPECT_EQ(piece.boxes.size(), 1U);
        EXPECT_EQ(std::ssize(piece.checksums), chunk_count(piece.count() * size_of(tensor.info.dtype)));
        EXPECT_EQ(piece.key, piece_key(tensor.info, piece.boxes[0]));
      }
  }
}

std::vector<std::string> stored(const Manifest& plan) {
  std::vector<std::string> list;
  for (const StoredTensor& tensor : plan.tensors)
    list.push_back(fmt::format("{} {}", tensor.info.name, name_of(tensor.info.dtype)));
  return list;
}

TEST(PlanConversion, StatesAreWhatIsTrained) {
  const Manifest from = manifest_of({{"model/a", {2}, DType::fp32},
                                     {"adamw.m/a", {2}, DType::fp32},
                                     {"adamw.v/a", {2}, DType::fp32},
                                     {"model/frozen", {2}, DType::fp16},
                                     {"model/cold", {2}, DType::fp32},
                                     {"untrained/buffer", {2}, DType::fp32},
                                     {"untrained/count", {2}, DType::int64}},
                                    3);
  EXPECT_THAT(stored(plan_conversion(from, {.states = DType::bf16})),
              ElementsAre("model/a bf16", "adamw.m/a bf16", "adamw.v/a bf16", "model/frozen fp16", "model/cold fp32",
                          "untrained/buffer fp32", "untrained/count int64"));
  EXPECT_THAT(stored(plan_conversion(from, {.states = DType::bf16, .weights_only = true})),
              ElementsAre("model/a bf16", "model/frozen fp16", "model/cold fp32", "untrained/buffer fp32",
                          "untrained/count int64"));
  EXPECT_THAT(stored(plan_conversion(manifest_of({{"model/a", {2}, DType::bf16}}), {.states = DType::fp32})),
              ElementsAre("model/a fp32"))
      << "without optimizer states all weights are trained ones";
  EXPECT_EQ(plan_conversion(from, {}).ranks, 3);
  EXPECT_EQ(plan_conversion(from, {}).files.size(), 3U);
}

TEST(Convert, KeepsEverythingOnAnyNumberOfFiles) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 3);
  uint32_t seed = 0;
  for (const int from : {1, 3})
    for (const int to : {1, 2, 5, 40}) {
      ++seed;
      const fs::path source = save(root / fmt::format("{}", seed), 1, values, from, seed);
      const fs::path out = root / fmt::format("out-{}", seed);
      convert_checkpoint(source, out, {.ranks = to});
      EXPECT_THAT(verify_checkpoint(out), IsEmpty());
      EXPECT_EQ(read_manifest(out).ranks, to);
      EXPECT_EQ(comparison_report(compare_checkpoints(source, out, {})), "equal: 9 tensors, 3 scalars\n");
      std::vector<RankMemory> layout = random_layout(values.tensors(), 2, seed);
      run_ranks(
          2, [&](Peers& peers) { (void)load_checkpoint(out, layout[static_cast<size_t>(peers.rank())].state, peers); });
      for (const RankMemory& rank : layout) EXPECT_TRUE(rank.holds(values));
    }
}

TEST(Convert, Version1BecomesVersion2) {
  const TemporaryDirectory root;
  const fs::path old = fs::path(PARTITA_SOURCE_DIR) / "tests/golden/checkpoint_1/step-00000002";
  convert_checkpoint(old, root / "step-00000002", {});
  EXPECT_THAT(read_file(root / "step-00000002/manifest.json"), HasSubstr("\"version\": 2"));
  EXPECT_TRUE(compare_checkpoints(old, root / "step-00000002", {}).equal());
}

TEST(Convert, ToBf16AndBack) {
  const TemporaryDirectory root;
  std::vector<TensorInfo> wide = {{"model/w", {61, 7}, DType::fp32}, {"adamw.m/w", {61, 7}, DType::fp32}};
  RankMemory rank = whole_layout(wide);
  for (size_t t = 0; t < 2; ++t)
    for (size_t i = 0; i < 61 * 7; ++i) {
      const float value = std::sin(static_cast<float>(i + t)) * 3;
      std::memcpy(rank.memory[t].data() + i * sizeof value, &value, sizeof value);
    }
  Alone alone;
  const fs::path source = save_checkpoint(root / "a", 1, rank.state, alone);
  convert_checkpoint(source, root / "bf16", {.ranks = 2, .states = DType::bf16});
  convert_checkpoint(root / "bf16", root / "fp32", {.states = DType::fp32});
  std::vector<TensorInfo> narrow = wide;
  for (TensorInfo& tensor : narrow) tensor.dtype = DType::bf16;
  // What is stored is what loading in bf16 gives.
  RankMemory loaded = whole_layout(narrow), converted_first = whole_layout(narrow);
  (void)load_checkpoint(source, loaded.state, alone);
  (void)load_checkpoint(root / "bf16", converted_first.state, alone);
  EXPECT_EQ(loaded.memory, converted_first.memory);
  // Of the original it is within half a unit of bf16's last place, exactly represented in fp32.
  EXPECT_TRUE(compare_checkpoints(source, root / "fp32", {.tolerance = 0x1p-8}).equal());
  EXPECT_FALSE(compare_checkpoints(source, root / "fp32", {.tolerance = 0x1p-10}).equal());
  const CheckpointComparison same = compare_checkpoints(root / "bf16", root / "fp32", {});
  for (const ComparedTensor& tensor : same.tensors) EXPECT_EQ(tensor.differing, 0);
  EXPECT_FALSE(same.equal()) << "of two dtypes";
}

TEST(Convert, ErrorsLeaveNothing) {
  const TemporaryDirectory root;
  RankMemory rank = whole_layout({{"model/w", {3}, DType::fp32}});
  const std::vector<float> values = {1, 3.4e38F, 2};
  std::memcpy(rank.memory[0].data(), values.data(), rank.memory[0].size());
  Alone alone;
  const fs::path source = save_checkpoint(root / "a", 1, rank.state, alone);
  const auto failure = [&](const fs::path& out, const ConvertOptions& options = {}) {
    const auto before = snapshot(root.path());
    const std::string message = error_message([&] { convert_checkpoint(source, out, options); });
    EXPECT_EQ(snapshot(root.path()), before);
    EXPECT_FALSE(fs::exists(partial_path(out)));
    return message;
  };
  EXPECT_THAT(failure(root / "out", {.states = DType::bf16}),
              AllOf(HasSubstr("'model/w'"), HasSubstr("beyond the range of bf16: keep it in fp32")));
  EXPECT_THAT(failure(root / "step-00000002"), HasSubstr("is the name of step 2"));
  EXPECT_THAT(failure(root / "step-00000002/"), HasSubstr("choose the name step-00000001"));
  EXPECT_THAT(failure(source), HasSubstr("not empty"));
  flip_byte(source / "rank-00000.safetensors",
            static_cast<int64_t>(fs::file_size(source / "rank-00000.safetensors")) - 1);
  EXPECT_THAT(failure(root / "out"), HasSubstr("does not match"));
}

#ifndef PARTITA_NO_MEMORY_LIMIT
TEST(Convert, AndCompareTakeLittleMemory) {
  const TemporaryDirectory root;
  const int64_t rows = 1000, columns = 40'000;
  {
    RankMemory rank = whole_layout({{"model/w", {rows, columns}, DType::fp32}});
    std::ranges::fill(rank.memory[0], std::byte{0x3C});
    Alone alone;
    (void)save_checkpoint(root / "a", 1, rank.state, alone);
  }
  const fs::path source = root / "a/step-00000001";
  ASSERT_GT(fs::file_size(source / "rank-00000.safetensors"), 150U << 20);
  const MemoryLimit limit(80U << 20);
  EXPECT_THROW(std::vector<std::byte>(90U << 20), std::bad_alloc) << "the limit holds";
  EXPECT_NO_THROW(convert_checkpoint(source, root / "out", {.ranks = 3, .states = DType::bf16}));
  EXPECT_NO_THROW((void)compare_checkpoints(source, root / "out", {}));
}
#endif

}  // namespace
}  // namespace partita::internal
