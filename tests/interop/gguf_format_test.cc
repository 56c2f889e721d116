#include "partita/interop/gguf_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/interop/gguf_reader.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::HasSubstr;

TEST(GgufFormat, BytesOfAType) {
  EXPECT_EQ(bytes_of(GgufType::f32, 3), 12);
  EXPECT_EQ(bytes_of(GgufType::f16, 3), 6);
  EXPECT_EQ(bytes_of(GgufType::bf16, 3), 6);
  EXPECT_EQ(bytes_of(GgufType::q8_0, 64), 68);
  EXPECT_THAT(error_message([] { (void)bytes_of(GgufType::q8_0, 33); }), HasSubstr("33 elements as q8_0"));
}

TEST(GgufFormat, HoldsEachKindOfValue) {
  const GgufMetadata metadata = {{"number", uint32_t{4'000'000'000}},
                                 {"epsilon", 0.5F},
                                 {"yes", true},
                                 {"no", false},
                                 {"name", std::string("a\0b", 3)},
                                 {"map", std::vector<uint8_t>{0, 255}},
                                 {"types", std::vector<int32_t>{-1, 3}},
                                 {"scores", std::vector<float>{-2.5F}},
                                 {"tokens", std::vector<std::string>{"", "\u0120the"}},
                                 {"none", std::vector<std::string>{}}};
  const GgufContents read = GgufReader(lay_out_gguf(metadata, {}).header).read();
  EXPECT_EQ(read.metadata, (nlohmann::ordered_json{{"number", 4'000'000'000},
                                                   {"epsilon", 0.5},
                                                   {"yes", true},
                                                   {"no", false},
                                                   {"name", std::string("a\0b", 3)},
                                                   {"map", {0, 255}},
                                                   {"types", {-1, 3}},
                                                   {"scores", {-2.5}},
                                                   {"tokens", {"", "\u0120the"}},
                                                   {"none", nlohmann::ordered_json::array()}}));
  EXPECT_TRUE(read.tensors.empty());
}

TEST(GgufFormat, TensorsBeginAtMultiplesOf32) {
  const std::vector<GgufEntry> entries = {
      {"a", {3}, GgufType::f32}, {"b", {2, 5}, GgufType::bf16}, {"c", {1, 32}, GgufType::q8_0}};
  const GgufLayout layout = lay_out_gguf({{"k", uint32_t{1}}}, entries);
  ASSERT_EQ(layout.header.size() % 32, 0U);
  const auto data = static_cast<int64_t>(layout.header.size());
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{data, data + 32, data + 64}));
  EXPECT_EQ(layout.bytes, data + 64 + 64);
  std::string file = layout.header;
  file.resize(static_cast<size_t>(layout.bytes), '\0');
  const GgufContents read = GgufReader(file).read();
  EXPECT_EQ(read.tensors.at("b").dimensions, (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(read.tensors.at("b").type, 30U);
}

TEST(GgufFormat, NamesAreUniqueAndShort) {
  const std::vector<GgufEntry> twice = {{"a", {3}, GgufType::f32}, {"a", {3}, GgufType::f32}};
  EXPECT_THAT(error_message([&] { (void)lay_out_gguf({}, twice); }), HasSubstr("the tensor name a"));
  const std::vector<GgufEntry> longest = {{std::string(63, 'a'), {3}, GgufType::f32}},
                               longer = {{std::string(64, 'a'), {3}, GgufType::f32}};
  EXPECT_EQ(error_message([&] { (void)lay_out_gguf({}, longest); }), "no error");
  EXPECT_THAT(error_message([&] { (void)lay_out_gguf({}, longer); }), HasSubstr("the tensor name aaa"));
  EXPECT_THAT(error_message([&] {
                (void)lay_out_gguf({{"k", 1.F}, {"k", 2.F}}, {});
              }),
              HasSubstr("the key k occurs twice"));
}

}  // namespace
}  // namespace partita::internal
