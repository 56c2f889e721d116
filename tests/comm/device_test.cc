#include "partita/comm/device.h"

#include <gmock/gmock.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using testing::HasSubstr;

TEST(Device, AutomaticTakesAGpuWhereOneCanBeUsed) {
  for (const DeviceFacts facts : {DeviceFacts{.built = false, .gpus = 8},
                                  {.built = true, .gpus = 0},
                                  {.built = true, .gpus = 2, .local_rank = 0, .local_size = 3},
                                  {}})
    EXPECT_TRUE(choose_device(DeviceRequest::automatic, facts).is_cpu());
  EXPECT_EQ(choose_device(DeviceRequest::automatic, {.built = true, .gpus = 1}), c10::Device(c10::kCUDA, 0));
}

TEST(Device, EachRankOfAMachineHasItsOwn) {
  for (const DeviceRequest wish : {DeviceRequest::automatic, DeviceRequest::cuda})
    for (int gpus = 1; gpus <= 8; ++gpus)
      for (int size = 1; size <= gpus; ++size)
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(choose_device(wish, {.built = true, .gpus = gpus, .local_rank = rank, .local_size = size}),
                    c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(rank)));
}

// As srun --gpus-per-task=1 hands them out: each rank sees one, under the number 0.
TEST(Device, OrWhatItWasGiven) {
  using Names = std::vector<std::string>;
  for (const DeviceRequest wish : {DeviceRequest::automatic, DeviceRequest::cuda})
    for (int rank = 0; rank < 4; ++rank) {
      const bool own = is_own_gpu(Names{"a", "b", "c", "d"}, rank);
      EXPECT_EQ(choose_device(wish, {.built = true, .gpus = 1, .local_rank = rank, .local_size = 4, .own = own}),
                c10::Device(c10::kCUDA, 0));
    }
  EXPECT_FALSE(is_own_gpu(Names{"a", "a"}, 1));
  EXPECT_FALSE(is_own_gpu(Names{"", "b"}, 0));
  EXPECT_TRUE(is_own_gpu(Names{"a", "b", "a"}, 1));
  EXPECT_FALSE(is_own_gpu(Names{"a", "b", "a"}, 2));
  EXPECT_TRUE(is_own_gpu(Names{"a"}, 0));
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_TRUE(choose_device(DeviceRequest::cpu, {.built = true, .gpus = 2, .local_rank = 6, .local_size = 7}).is_cpu());
}

TEST(Device, ErrorsSayWhatToDo) {
  EXPECT_THAT(error_message([] { (void)choose_device(DeviceRequest::cuda, {.built = false, .gpus = 1}); }),
              HasSubstr("this build has no code for GPUs: build with PARTITA_CUDA=1"));
  EXPECT_THAT(error_message([] { (void)choose_device(DeviceRequest::cuda, {.built = true, .gpus = 0}); }),
              HasSubstr("no GPU is visible"));
  // On every rank: none waits for one that has stopped.
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(error_message([&] {
                  (void)choose_device(DeviceRequest::cuda,
                                      {.built = true, .gpus = 2, .local_rank = rank, .local_size = 3});
                }),
                HasSubstr("3 ranks on this machine, which shows 2 GPUs to each: start at most 2 here"));
}

TEST(Device, NamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(parse_device("auto"), DeviceRequest::automatic);
  EXPECT_EQ(parse_device("cpu"), DeviceRequest::cpu);
  EXPECT_EQ(parse_device("cuda"), DeviceRequest::cuda);
  EXPECT_THAT(error_message([] { (void)parse_device("gpu"); }), HasSubstr("'gpu': auto, cpu or cuda expected"));
}

TEST(Device, EqualOnesAreCounted) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(describe_devices(Names{"A"}), "A");
  EXPECT_EQ(describe_devices(Names{"A", "A", "A"}), "3 x A");
  EXPECT_EQ(describe_devices(Names{"A", "B", "A"}), "2 x A; B");
  EXPECT_EQ(describe_devices(Names{}), "");
  EXPECT_EQ(describe_device(c10::kCPU), "CPU");
}

}  // namespace
}  // namespace partita::internal
