#include "partita/profile/matmul_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ChooseAlgorithms, LeavesOutWhatWasNotCompared) {
  const std::vector<MatmulTimes> times = {{"qkv", {"a0", "a1"}, {{0.5F}, {0.25F}}},
                                          {"once", {"b0", "b1"}, {{1}, {}}},
                                          {"first missing", {"c0", "c1", "c2"}, {{}, {1}, {2}}},
                                          {"best already", {"d0", "d1"}, {{1}, {2}}}};
  EXPECT_EQ(
      choose_algorithms("L", times),
      (MatmulTuning{.library = "L", .products = {{{"qkv", "a1"}, 250, 500}, {{"best already", "d0"}, 1000, 1000}}}));
}

TEST(MatmulTuningFile, ReadsBackAndRefusesOthers) {
  const MatmulTuning tuning{.library = "cuBLASLt 130100, NVIDIA \"H100\"",
                            .products = {{{"64 32 8", "00ff"}, 12.5, 13.75}, {{"1 2 3 add", ""}, 0, 0}}};
  EXPECT_EQ(parse_matmul_tuning(to_json(tuning), "f"), tuning);
  const MatmulTuning none{.library = "", .products = {}};
  EXPECT_EQ(parse_matmul_tuning(to_json(none), "f"), none);
  for (const char* bad : {"", "{"})
    EXPECT_THAT(error_message([&] { (void)parse_matmul_tuning(bad, "f.json"); }), HasSubstr("f.json:1:")) << bad;
  for (const char* bad : {"[]", "{\"library\": 3, \"products\": []}", "{\"library\": \"L\"}",
                          "{\"library\": \"L\", \"products\": [{\"product\": \"p\"}]}"})
    EXPECT_THAT(error_message([&] { (void)parse_matmul_tuning(bad, "f.json"); }),
                HasSubstr("f.json is not a file of tuned matrix products: "))
        << bad;
}

TEST(TunesMatmul, AutomaticWhereItPaysAndNeedNotBeRepeated) {
  const auto tunes = [](Switch wish, bool device, bool deterministic, int64_t steps) {
    return tunes_matmul(wish, device, deterministic, steps);
  };
  EXPECT_TRUE(tunes(Switch::automatic, true, false, 500));
  EXPECT_FALSE(tunes(Switch::automatic, true, false, 499));
  EXPECT_FALSE(tunes(Switch::automatic, true, true, 10000));
  EXPECT_TRUE(tunes(Switch::on, true, false, 1));
  for (const bool deterministic : {false, true}) {
    EXPECT_FALSE(tunes(Switch::off, true, deterministic, 10000));
    EXPECT_FALSE(tunes(Switch::automatic, false, deterministic, 10000));
    EXPECT_FALSE(tunes(Switch::off, false, deterministic, 10000));
    EXPECT_THAT(error_message([&] { (void)tunes(Switch::on, false, deterministic, 10000); }),
                HasSubstr("kernels.tune_matmul is true on the CPU"));
  }
  EXPECT_THAT(error_message([&] { (void)tunes(Switch::on, true, true, 10000); }),
              AllOf(HasSubstr("kernels.deterministic"), HasSubstr("kernels.tuning_file")));
}

}  // namespace
}  // namespace partita::internal
