#include "partita/config/frozen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

const std::vector<ParameterSpec> kParameters = {{.name = "embedding.token.weight", .shape = {5, 2}},
                                                {.name = "layers.0.mlp.up.weight", .shape = {2, 2}},
                                                {.name = "layers.10.mlp.up.weight", .shape = {2, 2}},
                                                {.name = "layers.0.mlp.up.lora_a", .shape = {1, 2}, .adapter = true}};

std::vector<bool> frozen(std::string_view patterns, const LoraConfig& lora = {}) {
  std::vector<bool> out;
  for (const ParameterSpec& p : kParameters) out.push_back(FrozenParameters(patterns, lora)(p));
  return out;
}

TEST(Frozen, PatternsMatchWholeNames) {
  using testing::ElementsAre;
  EXPECT_THAT(frozen(""), ElementsAre(false, false, false, false));
  EXPECT_THAT(frozen("layers.0"), ElementsAre(false, false, false, false));
  EXPECT_THAT(frozen("layers.0.*"), ElementsAre(false, true, false, true));
  EXPECT_THAT(frozen("layers.??.*"), ElementsAre(false, false, true, false));
  EXPECT_THAT(frozen(" embedding.* , *.weight"), ElementsAre(true, true, true, false));
  EXPECT_THAT(frozen("*"), ElementsAre(true, true, true, true));
}

TEST(Frozen, BesideAdaptersEverythingIsFrozen) {
  EXPECT_THAT(frozen("", {.rank = 4}), testing::ElementsAre(true, true, true, false));
}

TEST(Frozen, SaysWhatMatchesNothing) {
  const auto check = [](std::string_view patterns) {
    return error_message([&] { FrozenParameters(patterns, {}).check(kParameters); });
  };
  EXPECT_THAT(check("layer.0.*"),
              HasSubstr("no parameter is called \"layer.0.*\"; the first is embedding.token.weight"));
  EXPECT_THAT(check("*"), HasSubstr("leaves nothing to train"));
  FrozenParameters("embedding.*,layers.0.*", {}).check(kParameters);
}

}  // namespace
}  // namespace partita::internal
