// Splits text into sentences by ICU's rules for a language (UAX #29) with its list of abbreviations ("Mr.", "etc."). A
// line end also ends a sentence.
//
//   SentenceSplitter splitter({.language = "en"});       // one per thread
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
  bool keep_newlines = false;   // keep white space between sentences with the preceding one; otherwise drop it
};

class SentenceSplitter {
 public:
  // Error: a language without ICU rules.
  explicit SentenceSplitter(const SentenceOptions& options);
  SentenceSplitter(SentenceSplitter&&) noexcept;
  ~SentenceSplitter();

  // Non-empty views of `text`, never white space only, valid until the next call. With keep_newlines they concatenate
  // to the whole text, unless it is white space only.
  [[nodiscard]] std::span<const std::string_view> split(std::string_view text);

 private:
  struct Icu;
  std::unique_ptr<Icu> icu_;
  bool keep_newlines_;
  std::vector<std::string_view> sentences_;
};

}  // namespace partita
