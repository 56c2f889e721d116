#include "partita/config/toml_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace partita::internal {
namespace {

int64_t levels(std::string_view text) { return toml_depth(text).levels; }

TEST(TomlDepth, CountsDotsAndBrackets) {
  EXPECT_EQ(levels(""), 0);
  EXPECT_EQ(levels("a = 1"), 0);
  EXPECT_EQ(levels("a.b.c = 1"), 2);
  EXPECT_EQ(levels("a . b . c = 1"), 2);
  EXPECT_EQ(levels("[a.b.c]"), 3);
  EXPECT_EQ(levels("[[a.b]]"), 3);
  EXPECT_EQ(levels("a = [[1, [2]], [3]]"), 3);
  EXPECT_EQ(levels("a = {b.c = {d = 1}, e = 1}"), 3);
  EXPECT_EQ(levels("a.b = {c.d = 1, c.e.f = [1]}"), 5);
}

TEST(TomlDepth, StartsAgainOnEachLineAndItem) {
  EXPECT_EQ(levels("[a.b]\nc.d = 1\n[e]\nf = [0.5, 0.5,\n 0.5]\n"), 2);
  EXPECT_EQ(toml_depth("a = 1\n\nb.c.d = 1\n").line, 3);
  std::string floats = "x = [";
  for (int i = 0; i < 1000; ++i) floats += "0.25,\n";
  EXPECT_EQ(levels(floats + "]"), 2);
}

TEST(TomlDepth, StringsAndCommentsHaveNone) {
  EXPECT_EQ(levels("a = \"x.y.z[[{\""), 0);
  EXPECT_EQ(levels("a = \"x\\\".y\" # b.c.d"), 0);
  EXPECT_EQ(levels("a = 'C:\\.x.y' \nb.c = 1"), 1);
  EXPECT_EQ(levels("a = \"\"\"\n. . [ \\\"\"\" . \" \"\" .\n\"\"\"\"\"\nb.c = 1"), 1);
  EXPECT_EQ(levels("a = '''\n. ' '' \\''' \nb.c = 1"), 1);
  EXPECT_EQ(levels("\"a.b\".c.'d.e' = 1"), 2);
  EXPECT_EQ(toml_depth("a = '''\n\n'''\nb.c = 1").line, 4);
  EXPECT_EQ(levels("a = \"not ended\nb.c.d = 1"), 2);  // of one line: not valid, and nothing hides behind it
}

TEST(TomlDepth, IsDefinedForAnything) {
  for (const char* text : {"]", "}}]", "\"", "'''", "\\", "\"\\", "a = [\n", ",,,"}) EXPECT_LE(levels(text), 1) << text;
  EXPECT_EQ(levels(std::string(1'000'000, '.')), 1'000'000);
}

}  // namespace
}  // namespace partita::internal
