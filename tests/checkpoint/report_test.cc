#include "partita/checkpoint/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(CheckpointReport, ShowsWhatIsThere) {
  const TensorInfo weight{"model/w", {2, 512}, DType::fp32}, moment{"adamw.m/w", {2, 512}, DType::fp32};
  const Manifest manifest{100,
                          2,
                          {{"step", 100}, {"model", {{"layers", 3}, {"kind", "gpt2"}}}},
                          {{"rank-00000.safetensors", 4096}, {"rank-00001.safetensors", 5120}},
                          {{weight, {{0, "", {{0, 2, 0, 500}}, {}}, {1, "", {{0, 2, 500, 12}}, {}}}},
                           {moment, {{1, "", {{0, 2, 0, 512}}, {}}}}}};
  EXPECT_EQ(checkpoint_report(manifest),
            "step 100, written by 2 ranks\n"
            "scalars\n"
            "  model.kind                       \"gpt2\"\n"
            "  model.layers                     3\n"
            "  step                             100\n"
            "files\n"
            "  rank-00000.safetensors              4.0 KiB\n"
            "  rank-00001.safetensors              5.0 KiB\n"
            "tensors\n"
            "  model                               4.0 KiB  1 tensors, 1024 elements\n"
            "  adamw.m                             4.0 KiB  1 tensors, 1024 elements\n"
            "\n"
            "  model/w    fp32  [2, 512]            4.0 KiB  2 pieces\n"
            "  adamw.m/w  fp32  [2, 512]            4.0 KiB  1 piece\n");
  EXPECT_THAT(checkpoint_report(manifest, {.tensors = false}), testing::Not(testing::HasSubstr("model/w")));
}

TEST(CheckpointReport, OfAnEmptyOne) {
  EXPECT_EQ(checkpoint_report({0, 1, nlohmann::json::object(), {}, {}}),
            "step 0, written by 1 rank\nscalars\nfiles\ntensors\n\n");
}

}  // namespace
}  // namespace partita::internal
