#include "partita/tokenizer/split/regex_translation.h"

#include <optional>

#include "partita/base/error.h"
#include "partita/unicode/code_point_set.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

std::string escaped(char32_t c) { return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(c)); }

std::string class_of(const CodePointSet& set) {
  std::string out = "[";
  for (const auto& range : set.ranges()) {
    out += escaped(range.first);
    if (range.last > range.first) out += "-" + escaped(range.last);
  }
  // PCRE2 does not accept an empty class.
  return out == "[" ? "(?!)" : out + "]";
}

bool is_ascii_word(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

class Translator {
 public:
  Translator(std::string_view regex, std::string_view origin) : text_(regex), origin_(origin) {}

  std::string translate() {
    if (const auto bad = find_invalid_utf8(text_)) refuse(fmt::format("invalid UTF-8 at byte {}", *bad));
    alternatives(false, 0);
    if (at_ < text_.size()) refuse("a ) without its (");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("{}: the regular expression {} is not supported: {} (at byte {})", origin_, text_, what, at_);
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t take_char() {
    if (done()) refuse("it ends too early");
    const CodePoint c = decode_utf8(text_, at_);
    at_ += c.bytes;
    return c.value;
  }

  // Parses up to the end or an unmatched parenthesis.
  void alternatives(bool ignore_case, int depth) {
    if (depth > 100) refuse("groups are nested more than 100 deep");
    bool repeatable = false;  // whether a quantifier may follow
    if (!ignore_case) folded_before_ = 0;
    while (!done() && !next_is(")")) {
      if (take("|")) {
        out_ += '|';
        folded_before_ = 0;
        repeatable = false;
      } else if (next_is("(")) {
        repeatable = group(ignore_case, depth);
      } else if (next_is("*") || next_is("+") || next_is("?") || next_is("{")) {
        if (!repeatable) refuse("a quantifier with nothing to repeat");
        quantifier();
        repeatable = false;  // a second quantifier would repeat the repetition
      } else {
        repeatable = atom(ignore_case);
      }
    }
  }

  // Returns true if a quantifier may follow.
  bool group(bool ignore_case, int depth) {
    bool repeatable = true;
    if (take("(?i:")) {
      ignore_case = true;
      out_ += "(?i:";
    } else if (next_is("(?")) {
      bool known = false;
      for (const std::string_view look : {"(?=", "(?!", "(?<=", "(?<!"}) {
        if (!known && take(look)) {
          out_ += look;
          known = true;
          repeatable = false;
        }
      }
      if (!known && take("(?>")) {
        out_ += "(?>";
        known = true;
      }
      if (!known && take("(?:")) {
        out_ += "(?:";
        known = true;
      }
      if (!known) refuse(fmt::format("the group {}", text_.substr(at_, 4)));
    } else {
      at_ += 1;
      out_ += "(?:";  // captures are not needed
    }
    alternatives(ignore_case, depth + 1);
    if (!take(")")) refuse("a ( without its )");
    out_ += ')';
    return repeatable;
  }

  void quantifier() {
    folded_before_ = 0;
    const bool counted = next_is("{");
    if (counted) {
      const size_t close = text_.find('}', at_);
      const std::string_view body =
          close == std::string_view::npos ? std::string_view() : text_.substr(at_ + 1, close - at_ - 1);
      // {n}, {n,}, {n,m}; a missing lower bound differs between the dialects.
      const size_t comma = body.find(',');
      const auto is_number = [](std::string_view text, bool may_be_empty) {
        return text.size() <= 3 && (may_be_empty || !text.empty()) &&
               text.find_first_not_of("0123456789") == std::string_view::npos;
      };
      if (!is_number(body.substr(0, comma), false) ||
          (comma != std::string_view::npos && !is_number(body.substr(comma + 1), true))) {
        refuse("{ that does not begin {n}, {n,} or {n,m} with at most three digits");
      }
      out_ += text_.substr(at_, close + 1 - at_);
      at_ = close + 1;
    } else {
      out_ += text_[at_++];
    }
    if (!next_is("?") && !next_is("+")) return;
    if (counted) refuse("{n}? and {n,m}+, which dialects understand differently");
    out_ += text_[at_++];
  }

  // Returns true if a quantifier may follow.
  bool atom(bool ignore_case) {
    if (take("^")) return out_ += "(?:\\A|(?<=\\n))", false;
    if (take("$")) return out_ += "(?:\\z|(?=\\n))", false;
    if (take(".")) return out_ += "[^\\n]", true;
    if (next_is("[")) return add_class(bracket(), ignore_case), true;
    if (next_is("\\")) {
      if (take("\\A")) return out_ += "\\A", false;
      if (take("\\z")) return out_ += "\\z", false;
      const Escape escape = take_escape();
      if (escape.set) {
        add_class(*escape.set, ignore_case);
      } else {
        add_char(escape.value, ignore_case);
      }
      return true;
    }
    add_char(take_char(), ignore_case);
    return true;
  }

  void add_char(char32_t c, bool ignore_case) {
    if (ignore_case && c >= 0x80) refuse("characters beyond ASCII where case is ignored");
    ignore_case ? refuse_folded_pair(c) : void(folded_before_ = 0);
    out_ += escaped(c);
  }
  // Case-insensitively, Oniguruma matches some characters against several letters (ß for ss, ligatures); PCRE2 does
  // not.
  void refuse_folded_pair(char32_t c) {
    const char32_t lower = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (folded_before_ == static_cast<char32_t>(pair[0]) && lower == static_cast<char32_t>(pair[1])) {
        refuse(fmt::format("{} where case is ignored, which one character also is", pair));
      }
    }
    folded_before_ = lower;
  }
  void add_class(const CodePointSet& set, bool ignore_case) {
    if (ignore_case) refuse("a class where case is ignored");
    out_ += class_of(set);
  }

  struct Escape {
    std::optional<CodePointSet> set;
    char32_t value = 0;
  };

  // Parses from a backslash on, inside or outside of brackets.
  Escape take_escape() {
    ++at_;
    const char32_t c = take_char();
    const auto set_or_complement = [](CodePointSet set, bool complement) {
      return Escape{complement ? set.complement() : std::move(set), 0};
    };
    switch (c) {
      case 'r':
        return {{}, '\r'};
      case 'n':
        return {{}, '\n'};
      case 't':
        return {{}, '\t'};
      case 'f':
        return {{}, '\f'};
      case 'v':
        return {{}, '\v'};
      case 's':
      case 'S':
        return set_or_complement(CodePointSet::white_space(), c == 'S');
      case 'd':
      case 'D':
        return set_or_complement(*CodePointSet::of_category("Nd"), c == 'D');
      case 'w':
      case 'W': {
        CodePointSet word = CodePointSet::word();
        // Oniguruma includes Latin-1's superscripts and fractions.
        for (const char32_t number : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) word.add(number, number);
        return set_or_complement(std::move(word), c == 'W');
      }
      case 'p':
      case 'P':
        return set_or_complement(property(), c == 'P');
      case 'x':
      case 'u':
        return {{}, hex(c)};
      default:
        break;
    }
    if (is_ascii_word(c)) refuse(fmt::format("\\{}", static_cast<char>(c)));
    return {{}, c};
  }

  CodePointSet property() {
    const size_t close = text_.find('}', at_);
    if (!next_is("{") || close == std::string_view::npos) refuse("\\p without {NAME}");
    std::string_view name = text_.substr(at_ + 1, close - at_ - 1);
    const bool complement = name.starts_with('^');
    if (complement) name.remove_prefix(1);
    auto set = CodePointSet::of_category(name);
    if (!set) refuse(fmt::format("\\p{{{}}}: general categories, such as L or Lu, are known", name));
    at_ = close + 1;
    return complement ? set->complement() : *set;
  }

  // \x41, \x{1F999} or \u4E2D
  char32_t hex(char32_t kind) {
    size_t digits = kind == 'u' ? 4 : 2;
    const bool braces = kind == 'x' && take("{");
    if (braces) digits = std::min<size_t>(text_.find('}', at_) - at_, 7);
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char32_t c = take_char();
      const std::string_view all = "0123456789abcdefABCDEF";
      const size_t found = c < 0x80 ? all.find(static_cast<char>(c)) : std::string_view::npos;
      if (found == std::string_view::npos) refuse("an invalid hexadecimal number");
      value = value * 16 + static_cast<char32_t>(found < 16 ? found : found - 6);
    }
    if (braces && (digits == 0 || !take("}"))) refuse("an invalid hexadecimal number");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("a number that is not a character");
    return value;
  }

  CodePointSet bracket() {
    ++at_;
    const bool complement = take("^");
    CodePointSet set;
    for (bool first = true; first || !next_is("]"); first = false) {
      if (next_is("]")) refuse("a class that begins with ]");
      if (next_is("[")) refuse("a class inside of a class");
      if (next_is("&&")) refuse("&& in a class");
      if (!first && next_is("-") && !next_is("-]")) refuse("- in the middle of a class, not between two characters");
      const Escape from = next_is("\\") ? take_escape() : Escape{{}, take_char()};
      if (from.set) {
        set.add(*from.set);
        continue;
      }
      char32_t last = from.value;
      if (next_is("-") && !next_is("-]")) {
        ++at_;
        if (next_is("[")) refuse("a class inside of a class");
        const Escape to = next_is("\\") ? take_escape() : Escape{{}, take_char()};
        if (to.set || to.value < from.value) refuse("a range that goes backwards or ends in a class");
        last = to.value;
      }
      set.add(from.value, last);
    }
    ++at_;
    return complement ? set.complement() : set;
  }

  std::string_view text_, origin_;
  std::string out_;
  size_t at_ = 0;
  char32_t folded_before_ = 0;  // preceding character, lower case, if case-insensitive
};

}  // namespace

std::string translate_regex(std::string_view regex, std::string_view origin) {
  return Translator(regex, origin).translate();
}

}  // namespace partita::internal
