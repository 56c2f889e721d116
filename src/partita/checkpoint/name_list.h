// Lists of names for one-line error messages, shortened if long.
//
//   std::string text;
//   append_list(text, "missing from it", missing);      // "missing from it: a, b, c, d, e, f and 7 more"
//   append_list(text, "of another shape", {});          // adds nothing
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace partita::internal {

inline constexpr size_t kNamesShown = 6;

inline void append_list(std::string& text, std::string_view title, std::span<const std::string> items) {
  if (items.empty()) return;
  if (!text.empty()) text += "; ";
  text += fmt::format("{}: {}", title, fmt::join(items.first(std::min(items.size(), kNamesShown)), ", "));
  if (items.size() > kNamesShown) text += fmt::format(" and {} more", items.size() - kNamesShown);
}

}  // namespace partita::internal
