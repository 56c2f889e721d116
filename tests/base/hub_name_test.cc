#include "partita/base/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::internal {
namespace {

using testing::HasSubstr;

TEST(HubName, HintsAtTheCommandThatFetches) {
  EXPECT_THAT(hub_hint("gpt2"), HasSubstr("'hf download gpt2 --local-dir models/gpt2'"));
  EXPECT_THAT(hub_hint("meta-llama/Llama-3.2-1B"),
              HasSubstr("'hf download meta-llama/Llama-3.2-1B --local-dir models/Llama-3.2-1B'"));
}

TEST(HubName, SaysNothingOfPaths) {
  for (const char* path : {"", ".", "..", "./gpt2", "../gpt2", "/models/gpt2", "models/a/b", "gpt2/", "my model",
                           "tokenizer.json", "models/tokenizer.json", "data.bin", "~/gpt2", "--gpt2"})
    EXPECT_EQ(hub_hint(path), "") << path;
}

}  // namespace
}  // namespace partita::internal
