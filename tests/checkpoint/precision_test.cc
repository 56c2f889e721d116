// Loads checkpoints in another precision than they were saved in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/folders.h"
#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

std::vector<TensorInfo> tensors_of(DType dtype) {
  return {{"model/table", {61, 7}, dtype}, {"adamw.m/table", {61, 7}, dtype}, {"model/bias", {1031}, dtype},
          {"model/none", {3, 0}, dtype},   {"model/scale", {}, dtype},        {"counts", {33}, DType::int64}};
}

// Numbers of ordinary size, in fp32, that no half precision holds exactly.
GlobalValues ordinary_values() {
  const std::vector<TensorInfo> tensors = tensors_of(DType::fp32);
  std::vector<std::vector<std::byte>> bytes;
  int n = 0;
  for (const TensorInfo& tensor : tensors) {
    bytes.emplace_back(static_cast<size_t>(tensor.count() * size_of(tensor.dtype)));
    for (size_t i = 0; tensor.dtype == DType::fp32 && i < bytes.back().size(); i += sizeof(float)) {
      const float value = std::sin(static_cast<float>(++n)) * 10;
      std::memcpy(bytes.back().data() + i, &value, sizeof value);
    }
  }
  return {tensors, std::move(bytes)};
}

TEST(Precision, AnyLoadsAsAnyOther) {
  const TemporaryDirectory root;
  const GlobalValues exact = ordinary_values();
  int64_t step = 0;
  for (const DType from : {DType::fp32, DType::bf16, DType::fp16}) {
    const GlobalValues stored = converted(exact, tensors_of(from));
    const int ranks = 1 + static_cast<int>(step % 4);
    ++step;
    const fs::path folder = save(root.path(), step, stored, ranks, static_cast<uint32_t>(step));
    for (const DType to : {DType::fp32, DType::bf16, DType::fp16})
      for (const int readers : {1, 3}) {
        std::vector<RankMemory> layout = random_layout(tensors_of(to), readers, static_cast<uint32_t>(step + readers));
        run_ranks(readers, [&](Peers& peers) {
          (void)load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers);
        });
        for (const RankMemory& rank : layout)
          EXPECT_TRUE(rank.holds(converted(stored, tensors_of(to)))) << name_of(from) << " to " << name_of(to);
      }
  }
}

// As a run with other precision.compute and frozen parameters has them.
TEST(Precision, TensorsOfSeveralDtypes) {
  const TemporaryDirectory root;
  const GlobalValues stored = ordinary_values();
  const fs::path folder = save(root.path(), 1, stored, 2);
  std::vector<TensorInfo> mixed = tensors_of(DType::fp32);
  mixed[0].dtype = DType::bf16;
  mixed[2].dtype = DType::fp16;
  RankMemory rank = whole_layout(mixed);
  Alone alone;
  (void)load_checkpoint(folder, rank.state, alone);
  EXPECT_TRUE(rank.holds(converted(stored, mixed)));
}

TEST(Precision, IntegersAreNotConverted) {
  const TemporaryDirectory root;
  const fs::path folder = save(root.path(), 1, ordinary_values(), 1);
  std::vector<TensorInfo> other = tensors_of(DType::bf16);
  other.back().dtype = DType::int32;
  RankMemory rank = whole_layout(other);
  Alone alone;
  EXPECT_THAT(error_message([&] { (void)load_checkpoint(folder, rank.state, alone); }),
              AllOf(HasSubstr("of another dtype: counts int64 instead of int32"), testing::Not(HasSubstr("bf16"))));
  EXPECT_TRUE(rank.untouched());
}

// One element that one rank reads: no rank's memory is written.
TEST(Precision, AValueBeyondTheRangeIsAnErrorOnAllRanks) {
  const TemporaryDirectory root;
  const float large = -1e5F, huge = std::numeric_limits<float>::max();
  const auto save_with = [&](int64_t step, float value) {
    RankMemory rank = whole_layout(tensors_of(DType::fp32));
    rank.fill(ordinary_values());
    std::memcpy(rank.memory[2].data() + 1000 * sizeof(float), &value, sizeof value);
    Alone alone;
    return save_checkpoint(root.path(), step, rank.state, alone);
  };
  const auto load = [&](const fs::path& folder, DType to, std::vector<RankMemory>& layout) {
    layout = random_layout(tensors_of(to), 3, 7);
    return errors_of_ranks(3, [&](Peers& peers) {
      (void)load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers);
    });
  };
  std::vector<RankMemory> layout;
  for (const auto& [value, to, text] : std::vector<std::tuple<float, DType, std::string>>{
           {large, DType::fp16, "holds -100000 in fp32, which is beyond the range of fp16: load it in fp32"},
           {huge, DType::bf16, "holds 3.4028235e+38 in fp32, which is beyond the range of bf16: load it in fp32"}}) {
    const auto errors = load(save_with(1, value), to, layout);
    EXPECT_THAT(errors, Each(AllOf(HasSubstr("'model/bias'"), HasSubstr(text))));
    EXPECT_THAT(errors, Each(errors[0]));
    for (const RankMemory& rank : layout) EXPECT_TRUE(rank.untouched());
  }
  EXPECT_THAT(load(save_with(2, large), DType::bf16, layout), Each(""));
  // What is infinite already stays so.
  EXPECT_THAT(load(save_with(3, -std::numeric_limits<float>::infinity()), DType::fp16, layout), Each(""));
}

TEST(Precision, DamageIsFoundBeforeAnythingIsConverted) {
  const TemporaryDirectory root;
  const fs::path folder = save(root.path(), 1, ordinary_values(), 1);
  const fs::path file = folder / "rank-00000.safetensors";
  flip_byte(file, static_cast<int64_t>(fs::file_size(file)) - 1);
  RankMemory rank = whole_layout(tensors_of(DType::bf16));
  Alone alone;
  EXPECT_THAT(error_message([&] { (void)load_checkpoint(folder, rank.state, alone); }), HasSubstr("does not match"));
  EXPECT_TRUE(rank.untouched());
}

TEST(Precision, IsLoggedOnceByRankZero) {
  const TemporaryDirectory root;
  const fs::path folder = save(root.path(), 1, ordinary_values(), 2);
  std::vector<RankMemory> layout = random_layout(tensors_of(DType::bf16), 3, 2);
  testing::internal::CaptureStderr();
  run_ranks(
      3, [&](Peers& peers) { (void)load_checkpoint(folder, layout[static_cast<size_t>(peers.rank())].state, peers); });
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string note =
      "the checkpoint was saved in another precision: 5 tensors from fp32 to bf16, rounded to nearest\n";
  EXPECT_THAT(said, HasSubstr(note));
  EXPECT_EQ(said.find(note), said.rfind(note));
}

}  // namespace
}  // namespace partita::internal
