#include "partita/tokenizer/split/splitter.h"

#include "partita/tokenizer/split/contractions.h"
#include "partita/tokenizer/split/gpt2_split.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

// How the patterns differ in everything but words.
struct Kind {
  int most_digits;             // \p{N} or \p{N}{1,3}
  bool slashes;                // [\r\n/]* after punctuation, else [\r\n]*
  bool space_to_end_together;  // \s++$ has priority
};

// \p{N}{1,most}, starting at a number at `at`.
size_t digits_end(std::string_view text, size_t at, int most) {
  for (int count = 0; count < most && at < text.size(); ++count) {
    const CodePoint c = decode_utf8(text, at);
    if (char_class(c.value) != CharClass::number) break;
    at += c.bytes;
  }
  return at;
}

size_t run_end(std::string_view text, size_t at, CharClass run) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (char_class(c.value) != run) break;
    at += c.bytes;
  }
  return at;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ for white space at `begin`: up to the last line end of the run; without line ends, all but
// its last character, which joins what follows, unless the text ends or it is the only one.
size_t space_end(std::string_view text, size_t begin, bool to_end_together) {
  size_t at = begin, last = begin, after_line_end = begin;
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (char_class(c.value) != CharClass::space) break;
    last = at;
    at += c.bytes;
    if (c.value == '\r' || c.value == '\n') after_line_end = at;
  }
  if (at == text.size() && to_end_together) return at;
  if (after_line_end > begin) return after_line_end;
  return at < text.size() && last > begin ? last : at;
}

// The alternatives after those for words: numbers, punctuation, white space. c is at `begin`.
size_t other_end(std::string_view text, size_t begin, CodePoint c, const Kind& kind) {
  const CharClass first = char_class(c.value);
  if (first == CharClass::number) return digits_end(text, begin, kind.most_digits);
  size_t at = begin + c.bytes;
  if (first == CharClass::space) {
    // " ?" takes one ASCII space before punctuation.
    if (c.value != ' ' || at >= text.size() || char_class(decode_utf8(text, at).value) != CharClass::other) {
      return space_end(text, begin, kind.space_to_end_together);
    }
  }
  at = run_end(text, at, CharClass::other);
  while (at < text.size() && (is_line_end(text[at]) || (kind.slashes && text[at] == '/'))) ++at;
  return at;
}

bool may_precede_word(char32_t c) {  // [^\r\n\p{L}\p{N}]
  const CharClass found = char_class(c);
  return c != '\r' && c != '\n' && found != CharClass::letter && found != CharClass::number;
}

// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|...
size_t llama3_end(std::string_view text, size_t begin, const Kind& kind) {
  if (text[begin] == '\'') {
    if (const size_t bytes = contraction_bytes_any_case(text, begin); bytes > 0) return begin + bytes;
  }
  const CodePoint c = decode_utf8(text, begin);
  const size_t next = begin + c.bytes;
  if (char_class(c.value) == CharClass::letter) return run_end(text, next, CharClass::letter);
  if (may_precede_word(c.value) && next < text.size()) {
    const CodePoint second = decode_utf8(text, next);
    if (char_class(second.value) == CharClass::letter) return run_end(text, next + second.bytes, CharClass::letter);
  }
  return other_end(text, begin, c, kind);
}

// Where a character may occur in o200k's words: in the upper part [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], the lower part
// [\p{Ll}\p{Lm}\p{Lo}\p{M}], or both.
struct WordPart {
  bool upper, lower;
};
WordPart word_part(char32_t c) {
  switch (category(c)) {
    case Category::Lu:
    case Category::Lt:
      return {true, false};
    case Category::Ll:
      return {false, true};
    case Category::Lm:
    case Category::Lo:
    case Category::Mn:
    case Category::Mc:
    case Category::Me:
      return {true, true};
    default:
      return {false, false};
  }
}

size_t lower_run_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = decode_utf8(text, at);
    if (!word_part(c.value).lower) break;
    at += c.bytes;
  }
  return at;
}

// Ends of the matches of upper*lower+ and upper+lower* at `at`; `at` itself: no match.
struct Words {
  size_t with_lower, with_upper;
};
Words words_at(std::string_view text, size_t at) {
  size_t end = at, after_both = at;
  while (end < text.size()) {
    const CodePoint c = decode_utf8(text, end);
    const WordPart part = word_part(c.value);
    if (!part.upper) {
      if (part.lower) end = after_both = lower_run_end(text, end);
      break;
    }
    end += c.bytes;
    if (part.lower) after_both = end;  // upper* backtracks only as far as lower+ requires
  }
  return {after_both, end};
}

// [^\r\n\p{L}\p{N}]?upper*lower+|[^\r\n\p{L}\p{N}]?upper+lower*: the end of the word, or `begin`. A mark may be the
// optional first character or part of the word; the first is tried first.
size_t word_end(std::string_view text, size_t begin, CodePoint c) {
  const size_t next = begin + c.bytes;
  const Words plain = words_at(text, begin);
  Words after_one{next, next};
  if (may_precede_word(c.value) && next < text.size()) after_one = words_at(text, next);
  if (after_one.with_lower > next) return after_one.with_lower;
  if (plain.with_lower > begin) return plain.with_lower;
  if (after_one.with_upper > next) return after_one.with_upper;
  return plain.with_upper;
}

size_t o200k_end(std::string_view text, size_t begin, const Kind& kind, bool contractions) {
  const CodePoint c = decode_utf8(text, begin);
  const size_t end = word_end(text, begin, c);
  if (end == begin) return other_end(text, begin, c, kind);
  return contractions && end < text.size() && text[end] == '\'' ? end + contraction_bytes_any_case(text, end) : end;
}

struct KnownRegex {
  SplitPattern pattern;
  std::string_view regex;
};
// GPT-2 and its equivalent in tiktoken; Llama 3 and the older cl100k_base; Qwen; o200k_base and Llama 4; Mistral's
// Tekken. tiktoken's own pattern for cl100k_base is missing here: its \p{N}{1,3}+ is possessive in tiktoken, but in
// tokenizer.json, which uses Oniguruma's syntax, it is a repeated group that matches a whole number.
constexpr KnownRegex kKnown[] = {
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {SplitPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::qwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::tekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

}  // namespace

size_t pretoken_end(SplitPattern pattern, std::string_view text, size_t begin) {
  switch (pattern) {
    case SplitPattern::whole:
      return text.size();
    case SplitPattern::gpt2:
      return gpt2_pretoken_end(text, begin);
    case SplitPattern::cl100k:
      return llama3_end(text, begin, {3, false, true});
    case SplitPattern::llama3:
      return llama3_end(text, begin, {3, false, false});
    case SplitPattern::qwen2:
      return llama3_end(text, begin, {1, false, false});
    case SplitPattern::o200k:
      return o200k_end(text, begin, {3, true, false}, true);
    case SplitPattern::tekken:
      return o200k_end(text, begin, {1, true, false}, false);
  }
  return text.size();
}

std::optional<SplitPattern> find_split_pattern(std::string_view regex) {
  for (const KnownRegex& known : kKnown) {
    if (known.regex == regex) return known.pattern;
  }
  return std::nullopt;
}

}  // namespace partita::internal
