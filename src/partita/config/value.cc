#include "partita/config/value.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/base/number.h"
#include "partita/config/list_text.h"
#include "partita/config/table_text.h"

namespace partita::internal {

namespace {

constexpr const char* kListForms = ": write [A, B], A,B or \"A B\"";

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;

std::string join(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string toml_array(const ConfigList& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + toml_string(item);
  return out + "]";
}

// The shortest text that reads back to the same double, always recognizable as a float.
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string text_of(const ConfigValue& value) {
  return std::visit(
      Overload{[](bool v) { return std::string(v ? "true" : "false"); }, [](int64_t v) { return fmt::format("{}", v); },
               [](double v) { return number(v); }, [](const std::string& v) { return toml_string(v); },
               [](const ConfigList& v) { return toml_array(v); }, [](const ConfigTable& v) { return table_text(v); }},
      value);
}

// Guess at the intended value when the type is wrong: ": write 1000". Empty: no guess.
std::string meant(const ConfigField& field, const ConfigValue& value) {
  const std::string* text = std::get_if<std::string>(&value);
  if (std::holds_alternative<int64_t*>(field.target)) {
    const std::string digits = plain_integer(text != nullptr ? *text : text_of(value));
    return digits.empty() ? "" : ": write " + digits;
  }
  if (std::holds_alternative<double*>(field.target))
    return text != nullptr && parse_number<double>(*text) ? ": write it without quotes" : "";
  if (std::holds_alternative<bool*>(field.target)) {
    const std::string word = text != nullptr ? lower(*text) : text_of(value);
    if (word == "yes" || word == "on" || word == "true" || word == "1" || word == "y") return ": write true";
    if (word == "no" || word == "off" || word == "false" || word == "0" || word == "n") return ": write false";
  }
  return "";
}

// The value as a T; error if it has another type.
template <class T>
const T& as(const ConfigField& field, const ConfigValue& value, std::string_view where) {
  const T* typed = std::get_if<T>(&value);
  if (typed == nullptr) wrong_value(field, where, text_of(value), meant(field, value));
  return *typed;
}

double as_number(const ConfigField& field, const ConfigValue& value, std::string_view where) {
  const int64_t* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? static_cast<double>(*integer) : as<double>(field, value, where);
}

size_t as_choice(const ConfigField& field, const ConfigChoice& choice, const ConfigValue& value,
                 std::string_view where) {
  const std::string* given = std::get_if<std::string>(&value);
  const std::string name = given != nullptr ? *given : text_of(value);
  const auto at = std::find(choice.names.begin(), choice.names.end(), name);
  if (at == choice.names.end()) {
    const std::string near = nearest(name, choice.names);
    wrong_value(field, where, text_of(value), near.empty() ? "" : ": " + did_you_mean(near));
  }
  return static_cast<size_t>(at - choice.names.begin());
}

ConfigList as_list(const ConfigField& field, const ConfigValue& value, std::string_view where) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return as<ConfigList>(field, value, where);
  const std::optional<ConfigList> items = read_list(std::string_view(*text));
  if (!items) wrong_value(field, where, *text, kListForms);
  return *items;
}

// Strips TOML quotes: '"bf16"' on a command line copied from a file.
std::string unquoted(const std::string& text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"' || text.find('\n') != std::string::npos) return text;
  try {
    const toml::parse_result parsed = toml::parse("v = " + text);
    return parsed.size() == 1 ? parsed["v"].value_or(text) : text;
  } catch (const toml::parse_error&) {
    return text;
  }
}

}  // namespace

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_boolean_name(std::string_view name) { return name == "true" || name == "false"; }

std::string did_you_mean(const std::string& name) {
  return name.empty() ? "'partita train --help' lists the valid ones" : fmt::format("did you mean '{}'?", name);
}

[[noreturn]] void wrong_value(const ConfigField& field, std::string_view where, std::string_view found,
                              std::string_view hint) {
  fail("{}: {} = {}: expected {}{}", where, field.key, found, field.expected(), hint);
}

void set(const ConfigField& field, const ConfigValue& value, std::string_view where) {
  const auto in_range = [&](auto number_given) {
    if (!field.range.contains(static_cast<double>(number_given))) wrong_value(field, where, text_of(value));
    return number_given;
  };
  std::visit(Overload{[&](bool* target) { *target = as<bool>(field, value, where); },
                      [&](int64_t* target) { *target = in_range(as<int64_t>(field, value, where)); },
                      [&](double* target) { *target = in_range(as_number(field, value, where)); },
                      [&](std::string* target) { *target = as<std::string>(field, value, where); },
                      [&](std::filesystem::path* target) { *target = as<std::string>(field, value, where); },
                      [&](ConfigList* target) { *target = as_list(field, value, where); },
                      [&](const ConfigTableTarget& target) { *target.table = as<ConfigTable>(field, value, where); },
                      [&](const ConfigChoice& choice) { choice.set(as_choice(field, choice, value, where)); }},
             field.target);
}

ConfigValue read_list_as(const ConfigField& field, std::span<const std::string> words, std::string_view where) {
  std::optional<ConfigList> items = read_list(words);
  if (!items) wrong_value(field, where, fmt::format("{}", fmt::join(words, " ")), kListForms);
  return *std::move(items);
}

ConfigValue read_as(const ConfigField& field, const std::string& text, std::string_view where) {
  if (std::holds_alternative<int64_t*>(field.target)) {
    if (const auto value = parse_number<int64_t>(text)) return *value;
    if (is_integer_text(text)) wrong_value(field, where, text, fmt::format(", and {} is beyond 64 bits", text));
  }
  if (std::holds_alternative<double*>(field.target)) {
    if (const auto value = parse_number<double>(text)) return *value;
  }
  if (std::holds_alternative<bool*>(field.target) && is_boolean_name(text)) return text == "true";
  if (std::holds_alternative<ConfigTableTarget>(field.target)) return read_table_text(field, text, where);
  return unquoted(text);
}

bool Range::contains(double value) const {
  return std::isfinite(value) && (least_open ? value > least : value >= least) &&
         (most_open ? value < most : value <= most);
}

std::string Range::text() const {
  std::string text;
  if (std::isfinite(least)) text = fmt::format("{} {}", least_open ? "more than" : "at least", least);
  if (std::isfinite(most))
    text += fmt::format("{}{} {}", text.empty() ? "" : " and ", most_open ? "less than" : "at most", most);
  return text;
}

std::string ConfigField::expected() const {
  const auto with_range = [this](std::string noun) {
    const std::string text = range.text();
    return text.empty() ? noun : noun + " of " + text;
  };
  return std::visit(
      Overload{[](bool*) { return std::string("true or false"); }, [&](int64_t*) { return with_range("an integer"); },
               [&](double*) { return with_range("a number"); }, [](std::string*) { return std::string("a string"); },
               [](std::filesystem::path*) { return std::string("a path"); },
               [](ConfigList*) { return std::string("a list of strings and numbers"); },
               [](const ConfigTableTarget& t) { return "a table of names, each with " + join(t.values); },
               [](const ConfigChoice& choice) { return join(choice.names); }},
      target);
}

std::string ConfigField::value() const {
  return std::visit(
      Overload{[](const bool* v) { return text_of(*v); }, [](const int64_t* v) { return text_of(*v); },
               [](const double* v) { return text_of(*v); }, [](const std::string* v) { return text_of(*v); },
               [](const std::filesystem::path* v) { return text_of(v->string()); },
               [](const ConfigList* v) { return text_of(*v); },
               [](const ConfigTableTarget& t) { return text_of(*t.table); },
               [](const ConfigChoice& choice) {
                 const std::string& name = choice.names.at(choice.get());
                 return is_boolean_name(name) ? name : toml_string(name);
               }},
      target);
}

}  // namespace partita::internal
