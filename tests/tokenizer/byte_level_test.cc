#include "partita/tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include <set>

namespace partita::internal {
namespace {

TEST(ByteLevel, KnownCharacters) {
  EXPECT_EQ(to_printable(" the\n"), "ĠtheĊ");
  EXPECT_EQ(to_printable("é"), "Ã©");
  EXPECT_EQ(to_printable(std::string(1, '\0')), "Ā");
  EXPECT_EQ(to_printable("\xAD"), "Ń");
  EXPECT_EQ(to_printable("\xFF"), "ÿ");
  EXPECT_EQ(from_printable("ĠtheĊ"), " the\n");
  EXPECT_EQ(from_printable("a b"), std::nullopt);   // a space has a character of its own
  EXPECT_EQ(from_printable("▁the"), std::nullopt);  // SentencePiece's space
  EXPECT_EQ(from_printable("a\xFF"), std::nullopt);
}

TEST(ByteLevel, EveryByteRoundTripsAndDiffers) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(from_printable(to_printable(bytes)), bytes);
    seen.insert(to_printable(bytes));
  }
  EXPECT_EQ(seen.size(), 256U);
}

TEST(ByteLevel, AlphabetIsGpt2s) {
  const auto& alphabet = byte_level_alphabet();
  EXPECT_EQ(std::set<uint8_t>(alphabet.begin(), alphabet.end()).size(), 256U);
  EXPECT_EQ(alphabet[0], '!');     // id 0 of GPT-2
  EXPECT_EQ(alphabet[64], 'a');    // 64
  EXPECT_EQ(alphabet[220], ' ');   // 220
  EXPECT_EQ(alphabet[198], '\n');  // 198
  EXPECT_EQ(alphabet[222], 0x80);  // follows the 33 below '!' and DEL
}

}  // namespace
}  // namespace partita::internal
