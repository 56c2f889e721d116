#include "partita/base/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace partita::internal {
namespace {

TEST(NamePattern, StarsEndAtPoints) {
  const struct {
    std::string_view pattern, name;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"", "a", false},
      {"head", "head", true},
      {"head", "heads", false},
      {"head", "a.head", false},
      {"*", "", true},
      {"*", "layer", true},
      {"*", "layers.0", false},
      {"layers.*.query", "layers.11.query", true},
      {"layers.*.query", "layers.11.attention.query", false},
      {"layers.*.*.query", "layers.11.attention.query", true},
      {"**query", "layers.11.attention.query", true},
      {"**query", "query", true},
      {"layers.**", "layers.", true},
      {"layers.**", "layers", false},
      {"**.1.**y", "layers.1.query.key", true},
      {"l*s.*1", "layers.11", true},
      {"l*s.*1", "layers.12", false},
  };
  for (const auto& c : cases) EXPECT_EQ(matches_name(c.pattern, c.name), c.matches) << c.pattern << " " << c.name;
}

// Tried one after the other, the ways to match these are more than can be counted.
TEST(NamePattern, ManyStarsTakeNoLonger) {
  const std::string name(200, 'a');
  std::string single, any, points;
  for (int i = 0; i < 40; ++i) single += "*a", any += "**a", points += "*.";
  for (const std::string& pattern : {single, any, single + "*", any + "**", std::string(40, '*')}) {
    EXPECT_TRUE(matches_name(pattern, name)) << pattern;
    EXPECT_FALSE(matches_name(pattern + "b", name)) << pattern;
    EXPECT_EQ(matches_name(pattern, name + ".a"), !pattern.starts_with("*a")) << pattern;
  }
  EXPECT_FALSE(matches_name(single, std::string(39, 'a')));  // one 'a' too few
  EXPECT_TRUE(matches_name(single, std::string(40, 'a')));
  EXPECT_FALSE(matches_name(points, std::string(39, '.')));
  EXPECT_TRUE(matches_name(points, std::string(40, '.')));
  EXPECT_FALSE(matches_name(points, std::string(41, '.')));
  EXPECT_EQ(matches_name("***", "a.b"), true);
}

}  // namespace
}  // namespace partita::internal
