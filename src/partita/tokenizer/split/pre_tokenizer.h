// The pre-tokenizers of tokenizer.json, one after the other: each cuts the pieces that the one before has left.
//
//   PreTokenizer pre;
//   pre.steps.push_back(SplitStep{Matcher::digits(), SplitBehavior::isolated, false});
//   pre.steps.push_back(ByteLevelStep{.add_prefix_space = false, .use_regex = true});
//   std::vector<std::string_view> pieces = pre.split(text, true, arena);
//
// The way for whatever files say; what the common ones say is the scanner of splitter.h instead: see simplified().
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "partita/tokenizer/split/regex.h"
#include "partita/tokenizer/split/splitter.h"

namespace partita::internal {

// What becomes of the matches of a pattern.
enum class SplitBehavior {
  removed,               // they are left out
  isolated,              // each is a piece
  contiguous,            // neighbouring ones are one piece
  merged_with_previous,  // each goes with the piece before
  merged_with_next       // or behind
};

// What a pattern finds.
struct Matcher {
  struct Characters {
    bool (*holds)(char32_t);  // each of these characters is a match
  };
  std::variant<Characters, std::string, std::shared_ptr<const Regex>, SplitPattern> what;

  [[nodiscard]] static Matcher digits();       // \p{N} as of Unicode 17
  [[nodiscard]] static Matcher punctuation();  // is_punctuation() of normal_forms.h
  [[nodiscard]] static Matcher white_space();
  // By scanner if the pattern is known, otherwise by PCRE2. Error: Regex.
  [[nodiscard]] static Matcher regex(std::string_view pattern, std::string_view origin);
  [[nodiscard]] static Matcher text(std::string exactly) { return {std::move(exactly)}; }

  // With `content` for each match. Error: longer than `most` bytes.
  [[nodiscard]] std::string replace(std::string_view text, std::string_view content,
                                    size_t most = std::string_view::npos) const;
};

struct SplitStep {
  Matcher matcher;
  SplitBehavior behavior;
  bool invert = false;  // what stands between the matches counts as the match
};
struct ByteLevelStep {
  bool add_prefix_space, use_regex;
};
struct MetaspaceStep {
  std::string replacement = "\u2581";  // for each space
  enum class Prepend { first, always, never } prepend = Prepend::always;
  bool split = true;  // in front of each replacement
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;

// What a PreTokenizer is if a scanner of splitter.h does all of its work.
struct SimpleSplit {
  SplitPattern pattern;
  bool add_prefix_space;  // to a text that does not begin with a space
};

struct PreTokenizer {
  std::vector<PreTokenizerStep> steps;  // none: the text is one piece

  // Pieces become bytes in their printable form (byte_level.h) and their tokens are looked up so.
  [[nodiscard]] bool byte_level() const;
  [[nodiscard]] std::optional<SimpleSplit> simplified() const;
  // Views into `text` or `arena`, none empty. `at_start`: the text begins where the whole one did. Where byte_level(),
  // pieces are bytes again.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text, bool at_start,
                                                    std::deque<std::string>& arena) const;
};

}  // namespace partita::internal
