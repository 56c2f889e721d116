#include "partita/tokenizer/split/pretoken_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "partita/tokenizer/split/simd_targets.h"
// behind what it is compiled for
#include <hwy/highway.h>

namespace partita::internal {
namespace {

using testing::ElementsAre;

constexpr SplitPattern kPatterns[] = {SplitPattern::whole,  SplitPattern::gpt2,  SplitPattern::cl100k,
                                      SplitPattern::llama3, SplitPattern::qwen2, SplitPattern::o200k,
                                      SplitPattern::tekken};

std::vector<size_t> ends_one_by_one(SplitPattern pattern, std::string_view text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size();) ends.push_back(at = pretoken_end(pattern, text, at));
  return ends;
}

// Checks on the way what a window promises.
std::vector<size_t> ends_by_scanner(PretokenScanner& scanner, std::string_view text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size();) {
    const PretokenScanner::Window window = scanner.scan(text, at);
    if (window.bounds.empty()) {
      ends.push_back(window.next);
    } else {
      EXPECT_EQ(window.bounds.front(), 0U);
      EXPECT_EQ(at + window.bounds.back(), window.next);
      EXPECT_EQ(std::string_view(window.base, window.bounds.back()), text.substr(at, window.bounds.back()));
      for (const uint32_t bound : window.bounds.subspan(1)) ends.push_back(at + bound);
    }
    if (window.next <= at) {
      ADD_FAILURE() << "no progress at " << at;
      break;
    }
    at = window.next;
  }
  return ends;
}

// Pieces in which some rule of some pattern sees a difference; few kinds of them together make long runs.
std::string random_text(std::mt19937& random, size_t pieces) {
  static const std::vector<std::string> kPieces = {"'s",
                                                   "'ll",
                                                   "'re",
                                                   "'RE",
                                                   "'ſ",
                                                   "'",
                                                   "' ",
                                                   "it's",
                                                   " ",
                                                   " ",
                                                   "  ",
                                                   "     ",
                                                   "\n",
                                                   "\n",
                                                   "\r\n",
                                                   "\r",
                                                   "\t",
                                                   "\v",
                                                   "a",
                                                   "Be",
                                                   "é",
                                                   "中",
                                                   "ſ",
                                                   "word",
                                                   "The q",
                                                   "1",
                                                   "42",
                                                   "½",
                                                   "٣",
                                                   "12345",
                                                   "!",
                                                   "...",
                                                   "-",
                                                   "/",
                                                   "—",
                                                   "“",
                                                   "\u3000",
                                                   "\u00a0",
                                                   "\u2028",
                                                   "\u0085",
                                                   "\u200b",
                                                   "\u0301",
                                                   "\u180e",
                                                   "👧",
                                                   "𝟘",
                                                   "\xFF",
                                                   "\xE1\x80",
                                                   "\xC3",
                                                   "\xE3\x80",
                                                   "\xF0\x9F\x91",
                                                   std::string(1, '\0')};
  const size_t kinds = 1 + random() % kPieces.size(), first = random();
  std::string text;
  for (; pieces > 0; --pieces) text += kPieces[(first + random() % kinds) % kPieces.size()];
  return text;
}

void expect_same_pretokens(PretokenScanner& scanner, SplitPattern pattern, std::string_view text) {
  const auto expected = ends_one_by_one(pattern, text), found = ends_by_scanner(scanner, text);
  if (found == expected) return;
  const size_t same = static_cast<size_t>(
      std::mismatch(found.begin(), found.end(), expected.begin(), expected.end()).first - found.begin());
  const size_t from = same == 0 ? 0 : expected[same - 1];
  FAIL() << "pattern " << static_cast<int>(pattern) << ", " << text.size() << " bytes, pretoken " << same << " at "
         << from << ": " << testing::PrintToString(std::string(text.substr(from, 40)));
}

TEST(PretokenScanner, FindsWhatTheFunctionFinds) {
  for (const SplitPattern pattern : kPatterns) {
    std::mt19937 random(1);
    PretokenScanner scanner(pattern);
    for (int round = 0; round < 20'000 && !HasFatalFailure(); ++round) {
      expect_same_pretokens(scanner, pattern, random_text(random, random() % 60));
    }
  }
}

TEST(PretokenScanner, WindowsLeaveNoTrace) {
  for (const SplitPattern pattern : kPatterns) {
    std::mt19937 random(2);
    PretokenScanner scanner(pattern);
    for (int round = 0; round < 400 && !HasFatalFailure(); ++round) {
      // From below one window to several; what follows a window is in the same memory.
      const size_t size = PretokenScanner::kWindow / 2 + random() % (3 * PretokenScanner::kWindow);
      std::string text;
      while (text.size() < size) text += random_text(random, random() % 300);
      expect_same_pretokens(scanner, pattern, std::string_view(text).substr(0, size));
    }
  }
}

// A rule across each place of a block and of a window's end.
TEST(PretokenScanner, EveryOffset) {
  const std::vector<std::string> across = {
      "it's",       "'LL x",    "'\u017Fx",      "a  b",         "a\u3000\u3000b",
      "! \n\n  x",  "!\n\n\nx", "\u201Cx\u201D", "12345678x",    "\u0663\u0663\u0663\u0663",
      "x \n  \n y", "é中👧é",    "\xF0\x9F\x91",  "  \t\u2028 !",
  };
  for (const SplitPattern pattern : kPatterns) {
    PretokenScanner scanner(pattern);
    for (const std::string& piece : across) {
      for (const char fill : {'x', ' ', '!', '7', '\n'}) {
        for (size_t before = 0; before < 70 && !HasFatalFailure(); ++before) {
          const std::string text = std::string(before, fill) + piece;
          expect_same_pretokens(scanner, pattern, text);
          expect_same_pretokens(scanner, pattern, text + std::string(before % 9, fill) + piece + "a");
        }
        for (size_t before = PretokenScanner::kWindow - 12; before < PretokenScanner::kWindow + 70; ++before) {
          std::string text(before, fill);
          for (size_t i = 0; i + 500 < before; i += 97) text[i] = i % 2 == 0 ? 'a' : ' ';
          expect_same_pretokens(scanner, pattern, text + piece);
          expect_same_pretokens(scanner, pattern, text + piece + std::string(300, fill));
        }
      }
    }
  }
}

TEST(PretokenScanner, LongRuns) {
  for (const SplitPattern pattern : kPatterns) {
    PretokenScanner scanner(pattern);
    for (const std::string unit :
         {"a", " ", "!", "7", "\n", "é", "\u3000", "\u0663", "\xFF", "\n ", " \n", "!\n", "'s"}) {
      for (const size_t size : {4095, 4096, 4097, 4160, 9001}) {
        std::string text = "b";
        while (text.size() < size) text += unit;
        for (const char* end : {"", "x", " x", "\n", "\nx", " \n x", "1", "!"}) {
          expect_same_pretokens(scanner, pattern, text + end);
        }
      }
    }
  }
}

TEST(PretokenScanner, AnyBytes) {
  for (const SplitPattern pattern : kPatterns) {
    std::mt19937 random(3);
    PretokenScanner scanner(pattern);
    for (int round = 0; round < 2'000 && !HasFatalFailure(); ++round) {
      std::string text(random() % 300, '\0');
      for (char& c : text) c = static_cast<char>(random());
      expect_same_pretokens(scanner, pattern, text);
    }
  }
}

TEST(PretokenScanner, LongRunsTakeLinearTime) {
  // Each pretoken of three digits, or window of spaces, must not look at the rest again.
  PretokenScanner scanner(SplitPattern::llama3);
  EXPECT_EQ(ends_by_scanner(scanner, std::string(3'000'000, '7')).size(), 1'000'000U);
  EXPECT_THAT(ends_by_scanner(scanner, std::string(10'000'000, ' ') + "x"), ElementsAre(9'999'999, 10'000'001));
  EXPECT_THAT(ends_by_scanner(scanner, std::string(10'000'000, '\n') + " x"), ElementsAre(10'000'000, 10'000'002));
}

TEST(PretokenScanner, TheSameOnAllInstructionSets) {
  for (int64_t targets = hwy::SupportedTargets() & HWY_TARGETS; targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const SplitPattern pattern : kPatterns) {
      std::mt19937 random(4);
      PretokenScanner scanner(pattern);
      for (int round = 0; round < 3'000 && !HasFatalFailure(); ++round) {
        expect_same_pretokens(scanner, pattern, random_text(random, random() % 100));
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace
}  // namespace partita::internal
