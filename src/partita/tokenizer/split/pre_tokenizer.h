// The pre-tokenizers of tokenizer.json, applied in sequence: each splits the pieces left by the previous one.
//
//   PreTokenizer pre;
//   pre.steps.push_back(SplitStep{Matcher::digits(), SplitBehavior::isolated, false});
//   pre.steps.push_back(ByteLevelStep{.add_prefix_space = false, .use_regex = true});
//   std::vector<std::string_view> pieces = pre.split(text, true, arena);
//
// This is the general implementation; common configurations use the scanner of splitter.h instead: see simplified().
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

// What to do with the matches of a pattern.
enum class SplitBehavior {
  removed,               // drop the match
  isolated,              // the match is a piece
  contiguous,            // adjacent matches form one piece
  merged_with_previous,  // the match is appended to the preceding piece
  merged_with_next       // the match is prepended to the following piece
};

// A pattern to search for.
struct Matcher {
  struct Characters {
    bool (*holds)(char32_t);  // each such character is a match
  };
  std::variant<Characters, std::string, std::shared_ptr<const Regex>, SplitPattern> what;

  [[nodiscard]] static Matcher digits();       // \p{N} in Unicode 17
  [[nodiscard]] static Matcher punctuation();  // is_punctuation() of normal_forms.h
  [[nodiscard]] static Matcher white_space();
  // Uses a scanner if the pattern is known, otherwise PCRE2. Error: those of Regex.
  [[nodiscard]] static Matcher regex(std::string_view pattern, std::string_view origin);
  [[nodiscard]] static Matcher text(std::string exactly) { return {std::move(exactly)}; }

  // Replaces each match by `content`. Error: the result exceeds `most` bytes.
  [[nodiscard]] std::string replace(std::string_view text, std::string_view content,
                                    size_t most = std::string_view::npos) const;
};

struct SplitStep {
  Matcher matcher;
  SplitBehavior behavior;
  bool invert = false;  // swap matches and the text between them
};
struct ByteLevelStep {
  bool add_prefix_space, use_regex;
};
struct MetaspaceStep {
  std::string replacement = "\u2581";  // replaces each space
  enum class Prepend { first, always, never } prepend = Prepend::always;
  bool split = true;  // split before each replacement
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;

// A PreTokenizer that a scanner of splitter.h can replace entirely.
struct SimpleSplit {
  SplitPattern pattern;
  bool add_prefix_space;  // if the text does not begin with a space
};

struct PreTokenizer {
  std::vector<PreTokenizerStep> steps;  // empty: the text is a single piece

  // Whether pieces are converted to the printable form of bytes (byte_level.h) to look up their tokens.
  [[nodiscard]] bool byte_level() const;
  [[nodiscard]] std::optional<SimpleSplit> simplified() const;
  // Non-empty views into `text` or `arena`. `at_start`: the text is the beginning of the whole text. With byte_level(),
  // pieces are converted back to bytes.
  [[nodiscard]] std::vector<std::string_view> split(std::string_view text, bool at_start,
                                                    std::deque<std::string>& arena) const;
};

}  // namespace partita::internal
