// Features of tokenizer.json, in small tokenizers made by Hugging Face's `tokenizers`, with its ids
// (tests/golden/make_tokenizer.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/formats/tokenizer_json.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

class TokenizerFeatures : public testing::TestWithParam<int> {
 public:
  static const json& all() {
    static const json made = json::parse(read_file(PARTITA_SOURCE_DIR "/tests/golden/tokenizer_features.json"));
    return made;
  }
  static std::string name_of(const testing::TestParamInfo<int>& info) {
    std::string name = all()[static_cast<size_t>(info.param)]["name"];
    for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return name;
  }

 protected:
  const json& feature_ = all()[static_cast<size_t>(GetParam())];
  std::unique_ptr<Tokenizer> tokenizer_ = parse_tokenizer_json(feature_["tokenizer"].dump(), "golden");
};

TEST_P(TokenizerFeatures, MakesTheIdsOfTheReference) {
  ASSERT_GT(feature_["cases"].size(), 40U);
  const auto plain = tokenizer_->make_encoder();
  for (const json& item : feature_["cases"]) {
    const std::string text = item["text"];
    EXPECT_EQ(tokenizer_->encode(text), item["ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer_->encode(text, {.allow_special = true}), item["allow_special"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer_->encode(text, {.add_special = true}), item["add_special"].get<Ids>()) << text;
    Ids again;  // an encoder that has seen the texts before
    plain->encode(text, again);
    EXPECT_EQ(again, item["ids"].get<Ids>()) << text;
  }
}

TEST_P(TokenizerFeatures, DecodesAsTheReference) {
  if (feature_["tokenizer"]["decoder"].is_null()) GTEST_SKIP() << "a file without a decoder";
  for (const json& item : feature_["cases"]) {
    const std::string expected = item["decoded"];
    // Bytes that are no UTF-8 stay what they are here.
    if (expected.find("\uFFFD") != std::string::npos) continue;
    EXPECT_EQ(tokenizer_->decode(item["ids"].get<Ids>()), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFeatures, testing::Range(0, static_cast<int>(TokenizerFeatures::all().size())),
                         TokenizerFeatures::name_of);

}  // namespace
}  // namespace partita::internal
