#include "partita/config/schema.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/config/table_text.h"
#include "partita/config/toml_text.h"
#include "partita/config/value.h"

namespace partita::internal {

namespace {

// Placeholder for a value in advice.
const char* placeholder(const ConfigField& field) {
  if (std::holds_alternative<int64_t*>(field.target)) return "N";
  return std::holds_alternative<double*>(field.target) ? "X" : "VALUE";
}

// Converts a TOML node; one of a kind that the field does not take is an error.
ConfigValue value_of(const ConfigField& field, const toml::node& node, const NodePlace& place) {
  const std::string where = place(node);
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_array(); v != nullptr && std::holds_alternative<ConfigList*>(field.target)) {
    ConfigList items;
    for (const toml::node& item : *v) {
      if (const auto* text = item.as_string())
        items.push_back(text->get());
      else if (const auto* integer = item.as_integer())
        items.push_back(fmt::format("{}", integer->get()));
      else if (const auto* real = item.as_floating_point())
        items.push_back(fmt::format("{}", real->get()));
      else
        wrong_value(field, where, "an array that holds something else");
    }
    return items;
  }
  if (const auto* v = node.as_table(); v != nullptr && std::holds_alternative<ConfigTableTarget>(field.target))
    return read_table(field, *v, place);
  std::ostringstream kind;
  kind << node.type();
  wrong_value(field, where, fmt::format("a value of type {}", kind.str()));
}

void remember(ConfigSources* sources, const ConfigField& field, std::string_view where) {
  if (sources != nullptr) (*sources)[field.key] = where;
}

}  // namespace

ConfigSchema& ConfigSchema::section(std::string name, std::string meaning) {
  sections_.push_back({std::move(name), std::move(meaning), fields_.size()});
  return *this;
}

ConfigSchema& ConfigSchema::add(std::string name, std::string meaning, Range range,
                                decltype(ConfigField::target) target) {
  PARTITA_CHECK(!sections_.empty(), "field {} comes before any section", name);
  fields_.push_back({sections_.back().name + "." + name, std::move(meaning), range, std::move(target)});
  return *this;
}

ConfigSchema& ConfigSchema::field(std::string name, bool& target, std::string meaning) {
  return add(std::move(name), std::move(meaning), {}, &target);
}
ConfigSchema& ConfigSchema::field(std::string name, std::string& target, std::string meaning) {
  return add(std::move(name), std::move(meaning), {}, &target);
}
ConfigSchema& ConfigSchema::field(std::string name, std::filesystem::path& target, std::string meaning) {
  return add(std::move(name), std::move(meaning), {}, &target);
}
ConfigSchema& ConfigSchema::field(std::string name, ConfigList& target, std::string meaning) {
  return add(std::move(name), std::move(meaning), {}, &target);
}
ConfigSchema& ConfigSchema::field(std::string name, ConfigTable& target, std::vector<std::string> values,
                                  std::string meaning) {
  return add(std::move(name), std::move(meaning), {}, ConfigTableTarget{&target, std::move(values)});
}
ConfigSchema& ConfigSchema::field(std::string name, int64_t& target, Range range, std::string meaning) {
  return add(std::move(name), std::move(meaning), range, &target);
}
ConfigSchema& ConfigSchema::field(std::string name, double& target, Range range, std::string meaning) {
  return add(std::move(name), std::move(meaning), range, &target);
}

ConfigSchema& ConfigSchema::also_called(std::span<const ConfigAlias> aliases) {
  aliases_ = aliases;
  return *this;
}

ConfigSchema& ConfigSchema::at_most(std::string_view key, double most) {
  const auto field = std::ranges::find(fields_, key, &ConfigField::key);
  PARTITA_CHECK(field != fields_.end() &&
                    (std::holds_alternative<int64_t*>(field->target) || std::holds_alternative<double*>(field->target)),
                "{} is not a number of the configuration", key);
  if (most < field->range.most) field->range.most = most, field->range.most_open = false;
  return *this;
}

ConfigSchema& ConfigSchema::renamed(std::span<const ConfigRename> renames) {
  renames_ = renames;
  return *this;
}

const ConfigField& ConfigSchema::find(std::string_view key, std::string_view where) {
  for (const ConfigField& field : fields_)
    if (field.key == key) return field;
  if (const auto rename = std::ranges::find(renames_, key, &ConfigRename::before); rename != renames_.end()) {
    notes_.push_back(fmt::format("{}: {} is now called {}", where, key, rename->now));
    return find(rename->now, where);
  }
  fail("{}: unknown key '{}': {}", where, key, advice(key));
}

bool ConfigSchema::was_a_flag(std::string_view key) const {
  const auto rename = std::ranges::find(renames_, key, &ConfigRename::before);
  return rename != renames_.end() && !rename->yes.empty();
}

ConfigValue ConfigSchema::renamed_value(std::string_view key, ConfigValue value) const {
  if (!was_a_flag(key)) return value;
  const auto rename = std::ranges::find(renames_, key, &ConfigRename::before);
  const auto* text = std::get_if<std::string>(&value);
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr && (text == nullptr || !is_boolean_name(*text))) return value;
  return std::string((flag != nullptr ? *flag : *text == "true") ? rename->yes : rename->no);
}

// What to write instead of an unknown key.
std::string ConfigSchema::advice(std::string_view key) const {
  // The right name in the wrong section, or with no section, beats any other name, however different the sections are.
  const auto last_part = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };
  std::vector<std::string> keys, namesakes;
  for (const ConfigField& field : fields_) {
    keys.push_back(field.key);
    if (last_part(field.key) == last_part(key)) namesakes.push_back(field.key);
  }
  const auto meant = std::ranges::min_element(
      namesakes, {}, [key](const std::string& namesake) { return edit_distance(key, namesake); });
  if (meant != namesakes.end()) return did_you_mean(*meant);
  std::string plain = lower(std::string(last_part(key)));
  std::ranges::replace(plain, '-', '_');
  for (const ConfigAlias& alias : aliases_)
    if (alias.name == plain) return std::string(alias.advice);
  return did_you_mean(nearest(key, keys));
}

size_t ConfigSchema::end_of(size_t section) const {
  return section + 1 < sections_.size() ? sections_[section + 1].begin : fields_.size();
}

void ConfigSchema::read_toml(std::string_view text, std::string_view file, ConfigSources* sources) {
  const auto place = [file](const toml::node& node) { return fmt::format("{}:{}", file, node.source().begin.line); };
  const toml::table root = parse_toml(text, file);
  std::vector<std::string> names;
  for (const Section& section : sections_) names.push_back(section.name);

  for (const auto& [section_name, node] : root) {
    const std::string name(section_name.str());
    const toml::table* section = node.as_table();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      if (section == nullptr) (void)find(name, place(node));
      fail("{}: unknown section [{}]: {}", place(node), name, did_you_mean(nearest(name, names)));
    }
    if (section == nullptr) fail("{}: '{}' is a section: expected [{}] and its keys", place(node), name, name);
    for (const auto& [key, value] : *section) {
      const std::string where = place(value);
      const std::string full_key = name + "." + std::string(key.str());
      const ConfigField& field = find(full_key, where);
      set(field, renamed_value(full_key, value_of(field, value, place)), where);
      remember(sources, field, where);
    }
  }
}

void ConfigSchema::read_overrides(std::span<const std::string> arguments, ConfigSources* sources) {
  constexpr std::string_view kLocationKeys = "command line";
  // Reads the setting at arguments[i] and leaves i at its last word.
  const auto read = [&](size_t& i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--"))
      fail("unexpected argument '{}': a setting is written --section.key=value", argument);
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const ConfigField& field = find(key, kLocationKeys);
    std::string text;
    ConfigList words;  // list elements, one per argument: the shell has already split them
    if (equals != std::string::npos) {
      text = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      text = arguments[++i];
      if (std::holds_alternative<ConfigList*>(field.target)) {
        words.push_back(text);
        for (; i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"); ++i) words.push_back(arguments[i + 1]);
      }
    } else if (std::holds_alternative<bool*>(field.target) || was_a_flag(key)) {
      text = "true";
    } else {
      fail("{0}: {1} has no value: write --{1}={2}", kLocationKeys, field.key, placeholder(field));
    }
    // A single word may hold the whole list, as after an equals sign.
    set(field,
        renamed_value(key, words.size() > 1 ? read_list_as(field, words, kLocationKeys)
                                            : read_as(field, text, kLocationKeys)),
        kLocationKeys);
    remember(sources, field, kLocationKeys);
  };
  try {
    for (size_t i = 0; i < arguments.size(); ++i) read(i);
  } catch (const Error& error) {
    throw UsageError(error.what());  // like any command-line option; in a file it is an Error
  }
}

std::string ConfigSchema::to_toml(const ConfigSources* sources) const {
  std::vector<std::string> lines;
  size_t width = 0;
  for (const ConfigField& field : fields_) {
    lines.push_back(fmt::format("{} = {}", field.key.substr(field.key.rfind('.') + 1), field.value()));
    width = std::max(width, std::min<size_t>(lines.back().size(), 48));
  }
  std::string out;
  for (size_t s = 0; s < sections_.size(); ++s) {
    out += fmt::format("{}[{}]\n", s == 0 ? "" : "\n", sections_[s].name);
    for (size_t i = sections_[s].begin; i < end_of(s); ++i) {
      if (sources == nullptr) {
        out += lines[i] + "\n";
        continue;
      }
      const auto source = sources->find(fields_[i].key);
      std::string comment = source == sources->end() ? "default" : source->second;
      std::ranges::replace_if(
          comment, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
      out += fmt::format("{:<{}}  # {}\n", lines[i], width, comment);
    }
  }
  return out;
}

std::string ConfigSchema::help() const {
  std::string out;
  for (size_t s = 0; s < sections_.size(); ++s) {
    out += fmt::format("{}[{}] {}\n", s == 0 ? "" : "\n", sections_[s].name, sections_[s].meaning);
    for (size_t i = sections_[s].begin; i < end_of(s); ++i) {
      const ConfigField& field = fields_[i];
      out +=
          fmt::format("  --{} ({}; default {})\n      {}\n", field.key, field.expected(), field.value(), field.meaning);
    }
  }
  return out;
}

std::string ConfigSchema::markdown() const {
  const auto cell = [](std::string text) {
    for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
    return text;
  };
  std::string out;
  for (size_t s = 0; s < sections_.size(); ++s) {
    out += fmt::format("## [{}]\n{}\n\n| key | values | default | meaning |\n|---|---|---|---|\n", sections_[s].name,
                       sections_[s].meaning);
    for (size_t i = sections_[s].begin; i < end_of(s); ++i)
      out += fmt::format("| `{}` | {} | `{}` | {} |\n", fields_[i].key, cell(fields_[i].expected()),
                         cell(fields_[i].value()), cell(fields_[i].meaning));
    out += "\n";
  }
  if (renames_.empty()) return out;
  out += "## Old names\nStill read, with a warning:\n\n| before | now |\n|---|---|\n";
  for (const ConfigRename& rename : renames_)
    out += fmt::format("| `{}` | `{}`{} |\n", rename.before, rename.now,
                       rename.yes.empty() ? "" : fmt::format(": `\"{}\"` for `true`", rename.yes));
  return out;
}

}  // namespace partita::internal
