// SentencePiece's compiled normalization rules: strings and their replacements; the longest match applies.
//
//   PrecompiledCharsmap rules(spec.precompiled_charsmap, "tokenizer.model: normalizer_spec.precompiled_charsmap");
//   if (const auto rule = rules.longest(text.substr(at))) {         // e.g. U+FF21 -> "A"
//     out += rule->replacement;
//     at += rule->bytes;
//   }
//
// Format: byte length of the double array (u32), the double array as laid out by darts-clone, and the replacements,
// null-terminated; the array's values are offsets into them.
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
  // Empty bytes: no rules. Error (begins with `origin`): inconsistent lengths, transitions that leave the array.
  explicit PrecompiledCharsmap(std::string_view bytes, std::string_view origin = "precompiled_charsmap");

  struct Rule {
    size_t bytes;                  // length of the match in the text
    std::string_view replacement;  // may be empty
  };
  // The longest of the first 32 rules that match the beginning of `text`: the reference's limit.
  [[nodiscard]] std::optional<Rule> longest(std::string_view text) const;
  // Whether a rule begins with these bytes or is a prefix of them.
  [[nodiscard]] bool may_begin_with(std::string_view bytes) const;
  [[nodiscard]] bool empty() const { return units_.empty(); }

 private:
  void check(std::string_view origin) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace partita::internal
