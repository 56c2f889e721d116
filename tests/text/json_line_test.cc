#include "partita/text/json_line.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts(std::string_view line, std::vector<std::string> keys = {"text"},
                               InvalidUtf8 policy = InvalidUtf8::error) {
  JsonLineParser parser(std::move(keys), policy);
  const auto problem = parser.parse(line);
  EXPECT_FALSE(problem) << problem->what;
  return {parser.texts().begin(), parser.texts().end()};
}

JsonLineParser::Problem problem(std::string_view line, std::vector<std::string> keys = {"text"}) {
  JsonLineParser parser(std::move(keys), InvalidUtf8::error);
  return parser.parse(line).value_or(JsonLineParser::Problem{999, "no problem"});
}

TEST(JsonLine, Texts) {
  EXPECT_THAT(texts(R"({"text": "a\n\u00e9\ud83d\udc67\"\\\/ é"})"), ElementsAre("a\né👧\"\\/ é"));
  EXPECT_THAT(texts("{\"id\": 1, \"text\": \"\", \"more\": [{\"text\": \"inner\"}]}\r\n"), ElementsAre(""));
  EXPECT_THAT(texts(R"({"b": "2", "a": "1"})", {"a", "b"}), ElementsAre("1", "2"));
  EXPECT_THAT(texts(R"({"text": "first", "text": "last"})"), ElementsAre("last"));
  EXPECT_THAT(texts(R"({"t\u0065xt": "escaped key"})"), ElementsAre("escaped key"));
}

TEST(JsonLine, Problems) {
  EXPECT_THAT(problem("{").what, HasSubstr("not JSON"));
  EXPECT_THAT(problem(R"({"text": "a", "b": tru})").what, HasSubstr("not JSON"));
  EXPECT_THAT(problem(R"({"text": "a"} x)").what, HasSubstr("not JSON"));
  EXPECT_THAT(problem(R"({"text": "\ud800"})").what, HasSubstr("lone surrogate"));
  EXPECT_THAT(problem(R"(["text"])").what, HasSubstr("an object expected, found an array"));
  EXPECT_THAT(problem("3").what, HasSubstr("found a number"));
  EXPECT_THAT(problem(R"({"txt": "a"})").what, HasSubstr("no key \"text\", found \"txt\""));
  EXPECT_THAT(problem("{}").what, HasSubstr("no key \"text\", the object has no keys"));
  EXPECT_THAT(problem("{").what, HasSubstr("spread over several lines"));
  EXPECT_THAT(problem(R"([{"text": "a"}])").what, HasSubstr("an object expected, found an array: jq -c"));
  EXPECT_THAT(problem(R"({"a": "1"})", {"a", "b"}).what, HasSubstr("no key \"b\""));
  EXPECT_THAT(problem(R"({"text": null})").what, HasSubstr("\"text\": a string expected, found null"));
  EXPECT_THAT(problem(R"({"text": ["a"]})").what, HasSubstr("found an array"));
  const auto bad_byte = problem("{\"text\": \"a\xFF\"}");
  EXPECT_EQ(bad_byte.byte, 11U);
  EXPECT_THAT(bad_byte.what, HasSubstr("invalid UTF-8 (0xFF)"));
}

TEST(JsonLine, AParserGoesOnAfterAProblem) {
  JsonLineParser parser({"text"}, InvalidUtf8::error);
  EXPECT_TRUE(parser.parse("{\"text\": 1}"));
  EXPECT_FALSE(parser.parse("{\"text\": \"fine\"}"));
  EXPECT_THAT(parser.texts(), ElementsAre("fine"));
}

TEST(JsonLine, InvalidBytesReplacedOrKept) {
  const std::string line = "{\"x\": \"\xFE\", \"text\": \"a\\n\xFF\\\"\xE1\x80 \\u00e9\\ud83d\\udc67\xC3\"}";
  EXPECT_THAT(texts(line, {"text"}, InvalidUtf8::replace), ElementsAre("a\n\uFFFD\"\uFFFD é👧\uFFFD"));
  EXPECT_THAT(texts(line, {"text"}, InvalidUtf8::keep), ElementsAre("a\n\xFF\"\xE1\x80 é👧\xC3"));
  EXPECT_THAT(texts(line, {"text", "x"}, InvalidUtf8::keep), ElementsAre("a\n\xFF\"\xE1\x80 é👧\xC3", "\xFE"));
  EXPECT_THAT(texts("{\"text\": \"\xFF\", \"text\": \"b\"}", {"text"}, InvalidUtf8::keep), ElementsAre("b"));
}

// Whatever bytes a string holds: escaped where JSON asks for it, raw or escaped elsewhere, they come back.
TEST(JsonLine, AnyBytesAreKept) {
  std::mt19937 random(9);
  JsonLineParser parser({"text"}, InvalidUtf8::keep);
  for (int round = 0; round < 5000; ++round) {
    std::string text, line = "{\"text\":\"";
    for (auto n = random() % 40; n > 0; --n) {
      const auto c = static_cast<unsigned char>(random() % 3 == 0 ? random() % 128 : random() % 256);
      text += static_cast<char>(c);
      if (c < 0x20 || (c < 0x80 && random() % 4 == 0)) {
        line += fmt::format("\\u{:04x}", c);
      } else if (c == '"' || c == '\\') {
        line += '\\';
        line += static_cast<char>(c);
      } else {
        line += static_cast<char>(c);
      }
    }
    const auto found = parser.parse(line + "\"}");
    ASSERT_FALSE(found) << found->what;
    ASSERT_EQ(parser.texts()[0], text);
  }
}

}  // namespace
}  // namespace partita::internal
