#include "partita/config/toml_text.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <tuple>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/number.h"
#include "partita/config/toml_depth.h"
#include "partita/config/value.h"

namespace partita::internal {
namespace {

std::string_view line_of(std::string_view text, size_t number) {
  for (size_t n = 1; n < number && !text.empty(); ++n)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

// Explains common mistakes in a line that TOML rejects. Empty: not one of them.
std::string toml_hint(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return "";
  std::string value(line.substr(equals + 1, line.find('#') - equals - 1));
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0) value.erase(0, 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.pop_back();
  if (value.empty()) return "; the value is missing";
  if (value.front() == '{' && value.back() != '}') return "; a table in braces is on one line";
  if (is_integer_text(value)) return fmt::format("; {} is beyond 64 bits", value);
  if (const std::string digits = plain_integer(value); !digits.empty()) return "; write " + digits;
  if (const std::string word = lower(value); is_boolean_name(word) || word == "yes" || word == "no")
    return fmt::format("; write {}", word == "yes" || word == "true");
  const bool plain = std::ranges::none_of(value, [](char c) { return c == '"' || c == '\'' || c == '[' || c == '{'; });
  return plain ? fmt::format("; a text is written in quotes: \"{}\"", value) : "";
}

}  // namespace

toml::table parse_toml(std::string_view text, std::string_view file) {
  if (const TomlDepth found = toml_depth(text); found.levels > kNestingLimit)
    fail("{}:{}: tables and arrays are nested more than {} deep", file, found.line, kNestingLimit);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: not valid TOML: {}{}", file, error.source().begin.line, error.description(),
         toml_hint(line_of(text, error.source().begin.line)));
  }
}

std::vector<std::pair<std::string_view, const toml::node*>> in_written_order(const toml::table& table) {
  struct Row {
    toml::source_position at;
    std::pair<std::string_view, const toml::node*> entry;
  };
  std::vector<Row> rows;
  for (const auto& [key, node] : table) rows.push_back({key.source().begin, {key.str(), &node}});
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(row.at.line, row.at.column); });
  std::vector<std::pair<std::string_view, const toml::node*>> entries;
  for (const Row& row : rows) entries.push_back(row.entry);
  return entries;
}

}  // namespace partita::internal
