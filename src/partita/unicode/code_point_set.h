// Sets of code points, such as the character classes of regular expressions.
//
//   CodePointSet set = *CodePointSet::of_category("L");   // any letter, by the pinned tables of unicode.h
//   set.add('0', '9');
//   set = set.complement();
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

class CodePointSet {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CodePointSet() = default;
  // The set of a general category ("Lu") or a group of them ("L"); empty for other names.
  [[nodiscard]] static std::optional<CodePointSet> of_category(std::string_view name);
  [[nodiscard]] static CodePointSet white_space();  // the property: 25 code points
  // \w as defined by Unicode Technical Standard 18: letters, marks, decimal and letter numbers, connectors, circled
  // letters.
  [[nodiscard]] static CodePointSet word();

  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(const CodePointSet& other);
  // All code points that are not in this set; surrogates are in neither.
  [[nodiscard]] CodePointSet complement() const;

  // Sorted, disjoint and not adjacent.
  [[nodiscard]] std::vector<Range> ranges() const;

 private:
  std::vector<Range> ranges_;  // unsorted
};

}  // namespace partita::internal
