// Regular expressions of tokenizer.json that no scanner of splitter.h implements; uses PCRE2.
//
//   const Regex regex("\\p{N}{1,3}", "tokenizer.json: pre_tokenizer.pattern.Regex");
//   std::vector<Regex::Match> found;
//   regex.find_all("a1234", found);   // [1, 4), [4, 5)
//
// Thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

class Regex {
 public:
  struct Match {
    size_t begin, end;
  };

  // Error (begins with `origin`): those of translate_regex; PCRE2 cannot compile it.
  Regex(std::string_view regex, std::string_view origin);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends the matches from left to right, at most one empty match per position. Bytes that are not part of
  // well-formed UTF-8 match nothing: the text between them is searched as separate texts. Error: a search that needs
  // too much memory.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

 private:
  void find_in_valid(std::string_view text, size_t offset, std::vector<Match>& matches) const;

  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace partita::internal
