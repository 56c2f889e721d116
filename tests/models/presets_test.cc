// The published numbers of parameters.
#include "partita/models/presets.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(Presets, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(parameter_count(gpt2_small()), 124'439'808);
  EXPECT_EQ(parameter_count(gpt2_medium()), 354'823'168);
  EXPECT_EQ(parameter_count(gpt2_large()), 774'030'080);
  EXPECT_EQ(parameter_count(gpt2_xl()), 1'557'611'200);
  EXPECT_EQ(parameter_count(tiny_llama()), 1'100'048'384);
  EXPECT_EQ(parameter_count(llama2_7b()), 6'738'415'616);
  EXPECT_EQ(parameter_count(llama3_8b()), 8'030'261'248);
}

}  // namespace
}  // namespace partita::internal
