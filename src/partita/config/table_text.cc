#include "partita/config/table_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/base/nearest.h"
#include "partita/config/toml_depth.h"
#include "partita/config/toml_text.h"
#include "partita/config/value.h"

namespace partita::internal {
namespace {

// `name`, found as a table: a name whose points were taken for those of TOML, or a rule with more than a role.
[[noreturn]] void refuse_table(const std::string& name, const toml::table& table,
                               const std::vector<std::string>& values, std::string_view place) {
  const std::string role = table["role"].value_or(std::string());
  if (table.contains("role"))
    fail("{}: \"{}\" is a table: parts, quantum, gather and optional are for plans of your own modules: write {}",
         place, name,
         std::ranges::find(values, role) != values.end() ? toml_string(role)
                                                         : fmt::format("one of {}", fmt::join(values, ", ")));
  fail("{}: {} is a table: expected one of {}; a name with points is written in quotes", place, name,
       fmt::join(values, ", "));
}

std::string value_of(const ConfigField& field, const std::string& name, const toml::node& node,
                     const std::string& place) {
  const std::vector<std::string>& values = std::get<ConfigTableTarget>(field.target).values;
  if (const toml::table* table = node.as_table()) refuse_table(name, *table, values, place);
  const std::string expected = fmt::format("expected one of {}", fmt::join(values, ", "));
  const auto* text = node.as_string();
  if (text == nullptr) fail("{}: \"{}\" has a value that is not a string: {}", place, name, expected);
  if (std::ranges::find(values, text->get()) != values.end()) return text->get();
  const std::string near = nearest(text->get(), values);
  fail("{}: \"{}\" = \"{}\": {}{}", place, name, text->get(), expected,
       near.empty() ? std::string() : ": " + did_you_mean(near));
}

}  // namespace

ConfigTable read_table(const ConfigField& field, const toml::table& table, const NodePlace& place) {
  ConfigTable result;
  for (const auto& [key, node] : in_written_order(table)) {
    const std::string name(key);
    result.emplace_back(name, value_of(field, name, *node, fmt::format("{}: {}", place(*node), field.key)));
  }
  return result;
}

ConfigTable read_table_text(const ConfigField& field, const std::string& text, std::string_view where) {
  toml::table parsed;
  std::string why;
  try {
    if (text.find('\n') == std::string::npos && toml_depth(text).levels <= kNestingLimit)
      parsed = toml::parse("v = " + text);
  } catch (const toml::parse_error& error) {
    why = fmt::format(" (not valid TOML: {})", error.description());
  }
  const toml::table* table = parsed.size() == 1 ? parsed["v"].as_table() : nullptr;
  if (table == nullptr)
    wrong_value(field, where, text, fmt::format(": write {{\"NAME\" = \"VALUE\", ...}} on one line{}", why));
  return read_table(field, *table, [&](const toml::node&) { return std::string(where); });
}

std::string table_text(const ConfigTable& table) {
  std::string out = "{";
  for (const auto& [name, value] : table)
    out += fmt::format("{}{} = {}", out.size() > 1 ? ", " : "", toml_string(name), toml_string(value));
  return out + "}";
}

}  // namespace partita::internal
