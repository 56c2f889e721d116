#include "partita/train/disk_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/models/config.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

TEST(CheckpointBytes, OfWhatIsSaved) {
  const std::vector<ParameterSpec> parameters = {
      {.name = "a", .shape = {10, 3}},
      {.name = "b", .shape = {7}, .trainable = false},
      {.name = "c", .shape = {5}, .adapter = true},
  };
  const StoredSizes adamw{.weights = DType::bf16, .states = DType::fp32, .optimizer_states = 2};
  EXPECT_EQ(checkpoint_bytes(parameters, adamw), (30 + 5) * 12 + 7 * 2);
  StoredSizes lora = adamw;
  lora.adapters_alone = true;
  EXPECT_EQ(checkpoint_bytes(parameters, lora), 5 * 12);
  EXPECT_EQ(checkpoint_bytes({}, adamw), 0);
}

TEST(CheckpointBytes, OfARun) {
  Config c;
  c.model = {.layers = 2, .hidden_size = 16, .heads = 2, .vocab_size = 40, .max_length = 8};
  c.parallel.tensor = 2, c.parallel.pipeline = 2;  // no layout stores anything twice
  const int64_t parameters = parameter_count(c.model);
  EXPECT_EQ(checkpoint_bytes(c), parameters * 12);
  c.precision = {.compute = DType::bf16, .states = DType::bf16};
  EXPECT_EQ(checkpoint_bytes(c), parameters * 6);
  c.optimizer.kind = OptimizerKind::sgd;
  c.optimizer.momentum = 0;
  EXPECT_EQ(checkpoint_bytes(c), parameters * 2);
}

TEST(MostCheckpoints, ThatAreHeldAtTheSameTime) {
  EXPECT_EQ(most_checkpoints({.every = 0, .keep_last = 2}, 100), 1);
  EXPECT_EQ(most_checkpoints({.every = 10, .keep_last = 2}, 100), 3);
  EXPECT_EQ(most_checkpoints({.every = 10, .keep_last = 0}, 95), 10);
  EXPECT_EQ(most_checkpoints({.every = 60, .keep_last = 5}, 100), 2);
  EXPECT_EQ(most_checkpoints({.every = 10, .keep_last = 2, .keep_every = 50}, 100), 5);
  EXPECT_EQ(most_checkpoints({.every = 10, .keep_last = 2}, 0), 0);
}

TEST(DiskWarning, NamesTheKeys) {
  Config c;
  c.checkpoint = {.every = 10, .keep_last = 2};
  c.run.directory = "runs/a";
  EXPECT_EQ(disk_warning(1 << 30, c, 100, int64_t{3} << 30), "");
  EXPECT_EQ(disk_warning(1 << 30, c, 100, (int64_t{3} << 30) - 1),
            "3 checkpoints of 1.0 GiB will be held in runs/a, where 3.0 GiB is free: free some space, save fewer "
            "(checkpoint.every, interval, keep_last, keep_every, keep_hours), or choose another run.directory");
  c.checkpoint.every = 0;
  EXPECT_THAT(disk_warning(1 << 30, c, 100, 0), HasSubstr("1 checkpoint of"));
  c.checkpoint = {.every = 1, .keep_last = 0};
  EXPECT_THAT(disk_warning(int64_t{1} << 40, c, 1'000'000'000'000, int64_t{1} << 50), HasSubstr("1000000000000 check"));
}

}  // namespace
}  // namespace partita::internal
