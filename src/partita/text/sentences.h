// The sentences of a text, by ICU's rules for a language (UAX #29) with its list of abbreviations ("Mr.", "etc."). The
// end of a line ends a sentence.
//
//   SentenceSplitter splitter({.language = "en"});       // one a thread
//   for (std::string_view sentence : splitter.split("It is late. Mr. Holmes sleeps.")) use(sentence);    // two
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

struct SentenceOptions {
  std::string language = "en";  // ISO 639, "de", or a name such as "english"
  bool keep_newlines = false;   // white space between sentences stays with the one before; else it is left out
};

class SentenceSplitter {
 public:
  // Error: a language that ICU has no rules for.
  explicit SentenceSplitter(const SentenceOptions& options);
  SentenceSplitter(SentenceSplitter&&) noexcept;
  ~SentenceSplitter();

  // None is empty or white space alone. Views of `text`; valid until the next call. With keep_newlines, and but for
  // texts of white space alone, they are the whole text when put together.
  [[nodiscard]] std::span<const std::string_view> split(std::string_view text);

 private:
  struct Icu;
  std::unique_ptr<Icu> icu_;
  bool keep_newlines_;
  std::vector<std::string_view> sentences_;
};

}  // namespace partita
