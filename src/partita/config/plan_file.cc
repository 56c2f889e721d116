#include "partita/config/plan_file.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <array>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/config/toml_text.h"
#include "partita/config/value.h"

namespace partita::internal {
namespace {

// Of one rule, for messages.
struct Place {
  std::string_view file;
  std::string pattern;

  [[nodiscard]] std::string text(const toml::node& node) const {
    return fmt::format("{}:{}: parallel.plan, \"{}\"", file, node.source().begin.line, pattern);
  }
};

template <size_t N>
std::string near_text(std::string_view found, const std::array<const char*, N>& names) {
  const std::vector<std::string> known(names.begin(), names.end());
  const std::string near = nearest(found, known);
  return near.empty() ? std::string() : ": " + did_you_mean(near);
}

TensorRole read_role(const toml::node& node, const Place& place) {
  constexpr auto& kNames = EnumNames<TensorRole>::kNames;
  const auto* text = node.as_string();
  if (text == nullptr)
    fail("{}: the role is not a string: expected one of {}", place.text(node), fmt::join(kNames, ", "));
  const auto role = find_enum<TensorRole>(text->get());
  if (!role)
    fail("{}: unknown role \"{}\": expected one of {}{}", place.text(node), text->get(), fmt::join(kNames, ", "),
         near_text(text->get(), kNames));
  return *role;
}

int64_t read_count(const toml::node& node, std::string_view key, const Place& place) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < 1) fail("{}: {} must be an integer of at least 1", place.text(node), key);
  return value->get();
}

bool read_flag(const toml::node& node, std::string_view key, const Place& place) {
  const auto* value = node.as_boolean();
  if (value == nullptr) fail("{}: {} must be true or false", place.text(node), key);
  return value->get();
}

PlanRule read_rule(const toml::node& node, const Place& place) {
  PlanRule rule{.pattern = place.pattern};
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    rule.role = read_role(node, place);
    return rule;
  }
  constexpr std::array kKeys = {"role", "parts", "quantum", "gather", "optional"};
  if (!table->contains("role"))
    fail("{}: a table without role: write {{role = \"column\", ...}}; a name with points is written in quotes",
         place.text(node));
  for (const auto& [key, value] : *table) {
    if (key == "role")
      rule.role = read_role(value, place);
    else if (key == "parts")
      rule.parts = read_count(value, "parts", place);
    else if (key == "quantum")
      rule.quantum = read_count(value, "quantum", place);
    else if (key == "gather")
      rule.gather = read_flag(value, "gather", place);
    else if (key == "optional")
      rule.optional = read_flag(value, "optional", place);
    else
      fail("{}: unknown key '{}': expected one of {}{}", place.text(value), key.str(), fmt::join(kKeys, ", "),
           near_text(key.str(), kKeys));
  }
  return rule;
}

}  // namespace

std::vector<PlanRule> read_plan_rules(std::string_view text, std::string_view file) {
  const toml::table root = parse_toml(text, file);
  const toml::table* plan = root["parallel"]["plan"].as_table();
  if (plan == nullptr) fail("{}: no table [parallel.plan]: expected one with lines \"NAME\" = \"ROLE\"", file);
  std::vector<PlanRule> rules;
  for (const auto& [pattern, node] : in_written_order(*plan))
    rules.push_back(read_rule(*node, {.file = file, .pattern = std::string(pattern)}));
  return rules;
}

}  // namespace partita::internal
