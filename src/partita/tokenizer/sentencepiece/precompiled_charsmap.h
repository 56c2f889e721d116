// SentencePiece's compiled rules of normalization: strings and what replaces them, the longest first.
//
//   PrecompiledCharsmap rules(spec.precompiled_charsmap, "tokenizer.model: normalizer_spec.precompiled_charsmap");
//   if (const auto rule = rules.longest(text.substr(at))) {         // e.g. U+FF21 -> "A"
//     out += rule->replacement;
//     at += rule->bytes;
//   }
//
// The format: u32 bytes of a double array as darts-clone lays it out, the double array, and the replacements, each with
// a null behind it; the array's values are offsets into them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

class PrecompiledCharsmap {
 public:
  PrecompiledCharsmap() = default;  // no rules
  // Empty bytes: no rules. Error (begins with `origin`): lengths that do not fit, steps that lead out of the array.
  explicit PrecompiledCharsmap(std::string_view bytes, std::string_view origin = "precompiled_charsmap");

  struct Rule {
    size_t bytes;                  // of the text
    std::string_view replacement;  // perhaps empty
  };
  // The longest of the first 32 rules that `text` begins with: the reference's limit.
  [[nodiscard]] std::optional<Rule> longest(std::string_view text) const;
  // May a rule begin with these bytes, or be a part of them?
  [[nodiscard]] bool may_begin_with(std::string_view bytes) const;
  [[nodiscard]] bool empty() const { return units_.empty(); }

 private:
  void check(std::string_view origin) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace partita::internal
