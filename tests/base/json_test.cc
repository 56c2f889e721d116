#include "partita/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string nested(int levels, std::string_view open = "[", std::string_view middle = "", char close = ']') {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  return text + std::string(middle) + std::string(static_cast<size_t>(levels), close);
}

std::string error_of(std::string_view text) {
  return error_message([&] { (void)parse_json(text, "dir/a.json"); });
}

TEST(Json, ReadsWhatIsJson) {
  EXPECT_EQ(parse_json(R"( {"a": [1, 2.5, "x", null, true]} )", "a"), json({{"a", {1, 2.5, "x", nullptr, true}}}));
  EXPECT_EQ(parse_json("18446744073709551615", "a").get<uint64_t>(), 18446744073709551615U);
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{}", "a"), json::object());  // a mark of UTF-8 in front
}

TEST(Json, NestsToTheLimitAndNotDeeper) {
  EXPECT_NO_THROW((void)parse_json(nested(kNestingLimit), "a"));
  EXPECT_NO_THROW((void)parse_json(nested(kNestingLimit, R"({"a":)", "1", '}'), "a"));
  for (const std::string& text : {nested(kNestingLimit + 1), nested(kNestingLimit + 1, R"({"a":)", "1", '}'),
                                  nested(3'000'000), nested(1'000'000, R"({"a":)", "1", '}'),
                                  std::string(3'000'000, '['), R"({"hidden_size": )" + nested(kNestingLimit) + "}"})
    EXPECT_THAT(error_of(text), AllOf(HasSubstr("dir/a.json"), HasSubstr("nested more than 64 deep")));
}

TEST(Json, SaysWhereATextIsNotJson) {
  EXPECT_THAT(error_of("{\n \"a\": 1,\n \"b\": x}"), HasSubstr("dir/a.json:3:7: not valid JSON: syntax error"));
  EXPECT_THAT(error_of(""), HasSubstr("dir/a.json:1:1: not valid JSON: syntax error while parsing value - unexpected"));
  EXPECT_THAT(error_of("{} {}"), HasSubstr("dir/a.json:1:4: not valid JSON"));
  EXPECT_THAT(error_of("[1e999]"), HasSubstr("dir/a.json: not valid JSON: number overflow parsing '1e999'"));
  EXPECT_THAT(error_of("\"\xFF\""), HasSubstr("not valid JSON"));
}

// Python's json module writes these.
TEST(Json, NamesNaNAndInfinity) {
  for (const char* text : {R"({"a": NaN})", R"({"a": Infinity})", R"({"a": -Infinity})"})
    EXPECT_THAT(error_of(text), AllOf(HasSubstr("not valid JSON"), HasSubstr("NaN and Infinity are not JSON"))) << text;
}

TEST(Json, RefusesANameThatOccursTwice) {
  EXPECT_THAT(error_of(R"({"a": 1, "b": {"a": 2}, "a": 3})"), HasSubstr(R"(dir/a.json: the name "a" occurs twice)"));
  EXPECT_THAT(error_of(R"([{"a": 1}, {"b": 2, "b": 2}])"), HasSubstr(R"(the name "b" occurs twice)"));
  EXPECT_NO_THROW((void)parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "a"));
}

TEST(Json, NamesAGitLfsPointer) {
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              HasSubstr("dir/a.json is a Git LFS pointer, not the file itself; expected JSON. Run 'git lfs install"));
  EXPECT_THAT(error_of("version"), HasSubstr("not valid JSON"));
}

TEST(Json, TriesWithoutAnError) {
  EXPECT_EQ(try_parse_json("[1]"), json({1}));
  EXPECT_EQ(try_parse_json("[1"), std::nullopt);
  EXPECT_EQ(try_parse_json(nested(1'000'000)), std::nullopt);
}

TEST(Json, ExcerptsAreShortAndWholeCharacters) {
  EXPECT_EQ(json_excerpt({{"a", 1}}), R"({"a":1})");
  const std::string text = json_excerpt(std::string(100, 'x') + "é");
  EXPECT_EQ(text, '"' + std::string(56, 'x') + "...");
  std::string accents;
  for (int i = 0; i < 50; ++i) accents += "é";
  EXPECT_NO_THROW((void)json(json_excerpt(accents)).dump());  // valid UTF-8
}

TEST(JsonFile, MustBeARegularFile) {
  const TemporaryDirectory folder;
  write_file(folder / "a.json", "[1, 2]");
  EXPECT_EQ(read_json(folder / "a.json"), json({1, 2}));
  ASSERT_EQ(::mkfifo((folder / "pipe.json").c_str(), 0600), 0);
  EXPECT_THAT(error_message([&] { (void)read_json(folder / "pipe.json"); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_message([&] { (void)read_json("/dev/zero"); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_message([&] { (void)read_json(folder.path()); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_message([&] { (void)read_json(folder / "none.json"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_message([&] { MappedFile(folder / "pipe.json"); }), HasSubstr("a regular file was expected"));
  EXPECT_THAT(error_message([&] { MappedFile("/dev/null"); }), HasSubstr("a regular file was expected"));
}

TEST(JsonFile, MustNotBeHuge) {
  const TemporaryDirectory folder;
  write_file(folder / "a.json", "[]");
  std::filesystem::resize_file(folder / "a.json", static_cast<uint64_t>(kLargestJsonFile) + 1);  // sparse
  EXPECT_THAT(error_message([&] { (void)read_json(folder / "a.json"); }), HasSubstr("at most 1.0 GiB"));
}

}  // namespace
}  // namespace partita::internal
