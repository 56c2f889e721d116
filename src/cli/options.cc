#include "cli/options.h"

#include <algorithm>
#include <cstdlib>

#include "partita/base/nearest.h"

namespace partita::cli {
using namespace internal;

namespace {

// "a, b or c"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

}  // namespace

std::string detail::long_name(const std::string& names) {
  const size_t dashes = names.find("--");
  return dashes == std::string::npos ? names : names.substr(dashes, names.find(',', dashes) - dashes);
}

double detail::finite(std::string_view integer) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::clamp(std::strtod(std::string(integer).c_str(), nullptr), -kMost, kMost);
}

void detail::wrong_number(std::string_view option, bool integer, const Range& range, std::string_view got) {
  const std::string limits = range.text();
  if (integer ? is_integer_text(got) : parse_number<double>(got).has_value())
    throw UsageError(fmt::format("{} must be {}, got {}", option, limits.empty() ? "finite" : limits, got));
  const std::string meant = integer ? plain_integer(got) : "";
  throw UsageError(fmt::format("{} must be {}{}{}, got '{}'{}", option, integer ? "an integer" : "a number",
                               limits.empty() ? "" : " of ", limits, got, meant.empty() ? "" : ": write " + meant));
}

void detail::beyond_type(std::string_view option, const std::string& least, const std::string& most,
                         std::string_view got) {
  throw UsageError(fmt::format("{} must be at {} {}, got {}", option, got.starts_with('-') ? "least" : "most",
                               got.starts_with('-') ? least : most, got));
}

void detail::empty_path(std::string_view option, std::string_view type) {
  throw UsageError(option.starts_with('-') ? fmt::format("{0} needs a value: {0} {1}", option, type)
                                           : fmt::format("{} is empty: give a path", option));
}

CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                      const std::string& type, const std::string& help) {
  CLI::callback_t read = [&target](const CLI::results_t& values) {
    target = values;
    return true;
  };
  return command.add_option(name, std::move(read), help)
      ->type_name(type)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false)
      ->default_str(fmt::format("{}", fmt::join(target, " ")));
}

std::string sealed(const std::string& word) { return "=" + word; }

std::string unsealed(const std::string& word) { return word.substr(1); }

CLI::Option* add_positional_list(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                                 const std::string& type, const std::string& help) {
  CLI::callback_t read = [&target](const CLI::results_t& values) {
    target.clear();
    for (const std::string& value : values) target.push_back(unsealed(value));
    return true;
  };
  return command.add_option(name, std::move(read), help)
      ->type_name(type)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(true);
}

CLI::Option* detail::add_named(CLI::App& command, const std::string& name, const std::string& default_name,
                               const std::vector<std::string>& names, std::function<void(size_t)> set,
                               const std::string& help) {
  CLI::callback_t read = [set = std::move(set), names, shown = long_name(name)](const CLI::results_t& values) {
    const std::string& given = values.front();
    const auto at = std::ranges::find(names, given);
    if (at == names.end()) {
      const std::string near = nearest(given, names);
      throw UsageError(fmt::format("{} must be {}, got '{}'{}", shown, listed(names), given,
                                   near.empty() ? "" : ": did you mean '" + near + "'?"));
    }
    set(static_cast<size_t>(at - names.begin()));
    return true;
  };
  return command.add_option(name, std::move(read), help)
      ->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->default_str(default_name);
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& names, const std::string& help) {
  return detail::add_named(
      command, name, target, names, [&target, names](size_t chosen) { target = names[chosen]; }, help);
}

}  // namespace partita::cli
