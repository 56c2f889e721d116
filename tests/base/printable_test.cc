#include "partita/base/printable.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(Printable, LeavesText) {
  for (const char* text : {"", "runs/one", "a\nb\tc", "Grüße, 世界 🙂", "C:\\x", "e\u0301"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, SpellsOutWhatATerminalObeys) {
  EXPECT_EQ(printable("run\x1b[2J"), "run\\x1b[2J");
  EXPECT_EQ(printable_line("a\nb\tc\x1b é"), "a\\x0ab\\x09c\\x1b é");
  EXPECT_EQ(printable("a\rb\bc\x7f"), "a\\x0db\\x08c\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u0085\u009b31m"), "\\u0085\\u009b31m");  // C1: a terminal may take 9b for an escape
  EXPECT_EQ(printable("txt.\u202eexe"), "txt.\\u202eexe");
  EXPECT_EQ(printable("\u2028"), "\\u2028");
}

TEST(Printable, SpellsOutWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3");                  // cut off
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // an escape in two bytes
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half a surrogate pair
  EXPECT_EQ(printable("\xf5\x80\x80\x80z"), "\\xf5\\x80\\x80\\x80z");
  EXPECT_EQ(printable("\x9b"
                      "2J"),
            "\\x9b"
            "2J");
}

TEST(Printable, ANameIsOneLine) {
  EXPECT_EQ(printable_line("a\nb\tc\x1b[2J"), "a\\x0ab\\x09c\\x1b[2J");
  EXPECT_EQ(printable_line("runs/\xc3\xa9t\xc3\xa9 1"), "runs/\xc3\xa9t\xc3\xa9 1");
}

// Whatever goes in, what comes out has no control character but newline and tab, and comes out of itself again.
TEST(Printable, OfAllPairsOfBytes) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const char bytes[] = {static_cast<char>(a), static_cast<char>(b)};
      const std::string text = printable({bytes, 2});
      for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        ASSERT_TRUE(byte >= 0x20 ? byte != 0x7F : c == '\n' || c == '\t') << a << " " << b;
      }
      ASSERT_EQ(printable(text), text);
    }
}

}  // namespace
}  // namespace partita::internal
