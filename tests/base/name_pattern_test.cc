#include "partita/base/name_pattern.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace partita::internal
