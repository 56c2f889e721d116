#include "partita/config/list_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace partita::internal {
namespace {

constexpr std::string_view kSpace = " \t\r\n", kSeparators = " \t\r\n,", kQuotes = "\"'";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Takes the item at the start of the text. A backslash in double quotes stands for the next character.
std::optional<std::string> take_item(std::string_view& text) {
  const char quote = text.front();
  if (kQuotes.find(quote) == kQuotes.npos) {
    const std::string_view item = text.substr(0, text.find_first_of(kSeparators));
    text.remove_prefix(item.size());
    return std::string(item);
  }
  std::string item;
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == quote) {
      text.remove_prefix(at + 1);
      return item;
    }
    if (text[at] == '\\' && quote == '"' && at + 1 < text.size()) ++at;
    item += text[at];
  }
  return {};
}

}  // namespace

std::optional<std::vector<std::string>> read_list(std::string_view text) {
  text = trimmed(text);
  const bool opened = text.starts_with('[');
  if (opened != text.ends_with(']') || text == "[" || text == "]") return {};
  if (opened) text = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::string> items;
  while (!text.empty()) {
    if (text.starts_with(',')) return {};
    const std::optional<std::string> item = take_item(text);
    if (!item || (!text.empty() && kSeparators.find(text.front()) == kSeparators.npos)) return {};
    items.push_back(*item);
    text = trimmed(text);
    if (!text.starts_with(',')) continue;
    text = trimmed(text.substr(1));
    if (text.empty() && !opened) return {};
  }
  return items;
}

std::optional<std::vector<std::string>> read_list(std::span<const std::string> words) {
  const bool commas =
      std::ranges::any_of(words, [](const std::string& word) { return word.starts_with(',') || word.ends_with(','); });
  if (words.size() == 1 || commas || (!words.empty() && words.front().starts_with('[')))
    return read_list(std::string_view(fmt::format("{}", fmt::join(words, " "))));
  return std::vector<std::string>(words.begin(), words.end());
}

}  // namespace partita::internal
