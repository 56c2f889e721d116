#include "partita/unicode/code_point_set.h"

#include <algorithm>
#include <array>

#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

constexpr std::array<std::string_view, 30> kNames = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                     "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                     "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
constexpr std::string_view kGroups = "LMNPSZ";

}  // namespace

std::optional<CodePointSet> CodePointSet::of_category(std::string_view name) {
  const bool group = name.size() == 1 && kGroups.find(name[0]) != std::string_view::npos;
  if (!group && (name == "Cn" || name == "Cs" || std::find(kNames.begin(), kNames.end(), name) == kNames.end())) {
    return std::nullopt;
  }
  CodePointSet set;
  for (const auto& range : internal::category_ranges()) {
    if (kNames[static_cast<size_t>(range.value)].starts_with(name)) set.add(range.first, range.last);
  }
  return set;
}

CodePointSet CodePointSet::white_space() {
  CodePointSet set;
  for (const auto& range : internal::class_ranges) {
    if (range.value == CharClass::space) set.add(range.first, range.last);
  }
  return set;
}

CodePointSet CodePointSet::word() {
  CodePointSet set;
  for (const char* name : {"L", "M", "Nd", "Nl", "Pc"}) set.add(*of_category(name));
  // Other_Alphabetic characters that are not marks: circled, squared and negative letters.
  for (const Range range : {Range{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}}) {
    set.add(range.first, range.last);
  }
  return set;
}

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
}

std::vector<CodePointSet::Range> CodePointSet::ranges() const {
  std::vector<Range> sorted = ranges_, joined;
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& range : sorted) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

CodePointSet CodePointSet::complement() const {
  CodePointSet with_surrogates = *this, result;
  with_surrogates.add(0xD800, 0xDFFF);
  char32_t next = 0;
  for (const Range& range : with_surrogates.ranges()) {
    if (next < range.first) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) result.add(next, 0x10FFFF);
  return result;
}

}  // namespace partita::internal
