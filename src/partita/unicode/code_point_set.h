// Sets of code points, as the classes of a regular expression are.
//
//   CodePointSet set = CodePointSet::of_category("L");   // any letter, by the pinned tables of unicode.h
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
  // Of a general category ("Lu") or a group of them ("L"); nothing for another name.
  [[nodiscard]] static std::optional<CodePointSet> of_category(std::string_view name);
  [[nodiscard]] static CodePointSet white_space();  // the property: 25 code points
  // \w as Unicode Technical Standard 18 has it: letters, marks, decimal and letter numbers, connectors, circled
  // letters.
  [[nodiscard]] static CodePointSet word();

  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(const CodePointSet& other);
  // All code points (surrogates are none) that are not in it.
  [[nodiscard]] CodePointSet complement() const;

  // Ascending, disjoint and not adjacent.
  [[nodiscard]] std::vector<Range> ranges() const;

 private:
  std::vector<Range> ranges_;  // in any order
};

}  // namespace partita::internal
