#include "partita/text/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> split(std::string_view text, const SentenceOptions& options = {}) {
  SentenceSplitter splitter(options);
  const auto found = splitter.split(text);
  return {found.begin(), found.end()};
}

TEST(Sentences, EndAtStopsButNotAtAbbreviations) {
  EXPECT_THAT(split("It is late. Mr. Holmes sleeps!  Does he? \"Yes.\" He does"),
              ElementsAre("It is late.", "Mr. Holmes sleeps!", "Does he?", "\"Yes.\"", "He does"));
  EXPECT_THAT(split("Pi is 3.14 here. So."), ElementsAre("Pi is 3.14 here.", "So."));
  EXPECT_THAT(split("我来了。你呢？好"), ElementsAre("我来了。", "你呢？", "好"));
  EXPECT_THAT(split("Das ist z.B. gut. Ja.", {.language = "german"}), ElementsAre("Das ist z.B. gut.", "Ja."));
}

TEST(Sentences, LinesEndThemAndWhiteSpaceIsLeftOut) {
  EXPECT_THAT(split("  one\ntwo \r\n\r\n three. "), ElementsAre("one", "two", "three."));
  EXPECT_THAT(split(""), ElementsAre());
  EXPECT_THAT(split(" \n\t\n "), ElementsAre());
}

TEST(Sentences, AreTheTextWhereNewlinesAreKept) {
  const SentenceOptions keep{.keep_newlines = true};
  EXPECT_THAT(split("  \n one. \n\n\ntwo\n", keep), ElementsAre("  \n one. \n\n\n", "two\n"));
  // Of any bytes, invalid UTF-8 among them.
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {"a",  "B",    ". ",       "! ",   "\n",     " ",  "é",
                                           "。", "\xFF", "\xE3\x80", "Dr. ", "\u2029", "1.2"};
  SentenceSplitter splitter(keep), trimming({});
  for (int round = 0; round < 2000; ++round) {
    std::string text = "x";
    for (auto n = random() % 30; n > 0; --n) text += pieces[random() % pieces.size()];
    std::string joined;
    for (const std::string_view sentence : splitter.split(text)) joined += sentence;
    ASSERT_EQ(joined, text);
    for (const std::string_view sentence : trimming.split(text)) {
      ASSERT_FALSE(sentence.empty());
      ASSERT_EQ(sentence.find_first_not_of(" \n"), 0U);
      ASSERT_EQ(sentence.find_last_not_of(" \n"), sentence.size() - 1);
    }
  }
}

TEST(Sentences, UnknownLanguagesAreNamed) {
  for (const char* language : {"klingon", "zz", ""})
    EXPECT_THAT(error_message([&] { SentenceSplitter({.language = language}); }), HasSubstr("en or de")) << language;
}

}  // namespace
}  // namespace partita::internal
