#include "partita/config/table_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/nearest.h"
#include "partita/config/toml_depth.h"
#include "partita/config/value.h"

namespace partita::internal {
namespace {

constexpr const char* kTableForm = ": write {\"NAME\" = \"VALUE\", ...}";

std::string value_of(const ConfigField& field, const std::string& name, const toml::node& node,
                     std::string_view where) {
  const std::vector<std::string>& values = std::get<ConfigTableTarget>(field.target).values;
  const std::string expected = fmt::format("expected one of {}", fmt::join(values, ", "));
  if (node.is_table())
    fail("{}: {}: {} is a table: {}; a name with points is written in quotes", where, field.key, name, expected);
  const auto* text = node.as_string();
  if (text == nullptr) fail("{}: {}: \"{}\" has a value that is no text: {}", where, field.key, name, expected);
  if (std::ranges::find(values, text->get()) != values.end()) return text->get();
  const std::string near = nearest(text->get(), values);
  fail("{}: {}: \"{}\" = \"{}\": {}{}", where, field.key, name, text->get(), expected,
       near.empty() ? std::string() : ": " + did_you_mean(near));
}

}  // namespace

ConfigTable read_table(const ConfigField& field, const toml::table& table, std::string_view where) {
  struct Row {
    toml::source_position at;
    std::pair<std::string, std::string> pair;
  };
  std::vector<Row> rows;
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    rows.push_back({key.source().begin, {name, value_of(field, name, node, where)}});
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(row.at.line, row.at.column); });
  ConfigTable result;
  for (Row& row : rows) result.push_back(std::move(row.pair));
  return result;
}

ConfigTable read_table_text(const ConfigField& field, const std::string& text, std::string_view where) {
  toml::table parsed;
  try {
    if (text.find('\n') == std::string::npos && toml_depth(text).levels <= kNestingLimit)
      parsed = toml::parse("v = " + text);
  } catch (const toml::parse_error&) {
    parsed.clear();
  }
  const toml::table* table = parsed.size() == 1 ? parsed["v"].as_table() : nullptr;
  if (table == nullptr) wrong_value(field, where, text, kTableForm);
  return read_table(field, *table, where);
}

std::string table_text(const ConfigTable& table) {
  std::string out = "{";
  for (const auto& [name, value] : table)
    out += fmt::format("{}{} = {}", out.size() > 1 ? ", " : "", toml_string(name), toml_string(value));
  return out + "}";
}

}  // namespace partita::internal
