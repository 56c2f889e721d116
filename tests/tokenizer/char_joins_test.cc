#include "partita/tokenizer/bpe/char_joins.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace partita::internal {
namespace {

// Units cover the text, and are cut exactly between ASCII neighbours that no token has, and never inside a token.
TEST(CharJoins, CutsWhereNoTokenCrosses) {
  std::mt19937 draw(7);
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", "é", "中", "🦙", "\x80", "\n"};
  for (int round = 0; round < 100; ++round) {
    CharJoins joins;
    std::vector<std::string> tokens;
    for (size_t n = draw() % 12; n > 0; --n) {
      std::string token;
      for (size_t c = draw() % 4; c > 0; --c) token += alphabet[draw() % alphabet.size()];
      joins.add_token(token);
      tokens.push_back(token);
    }
    joins.finish();
    std::string text;
    std::vector<size_t> starts;
    for (size_t n = draw() % 400; n > 0; --n) {
      starts.push_back(text.size());
      text += alphabet[draw() % alphabet.size()];
    }
    std::vector<size_t> cuts = {0};
    joins.for_each_unit(text, [&](size_t begin, size_t end) {
      ASSERT_EQ(begin, cuts.back());
      ASSERT_LT(begin, end);
      cuts.push_back(end);
    });
    ASSERT_EQ(cuts.back(), text.size());
    for (size_t i = 1; i < starts.size(); ++i) {
      const bool cut = std::find(cuts.begin(), cuts.end(), starts[i]) != cuts.end();
      const std::string pair =
          text.substr(starts[i - 1], (i + 1 < starts.size() ? starts[i + 1] : text.size()) - starts[i - 1]);
      bool in_token = false;
      for (const std::string& token : tokens) in_token |= token.find(pair) != std::string::npos;
      ASSERT_FALSE(in_token && cut) << pair;
      if (!in_token && pair.size() == 2 && static_cast<unsigned char>(pair[0]) < 128 &&
          static_cast<unsigned char>(pair[1]) < 128) {
        ASSERT_TRUE(cut) << pair;
      }
    }
  }
}

}  // namespace
}  // namespace partita::internal
