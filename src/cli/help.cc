#include "cli/help.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace partita::cli {

namespace {

constexpr size_t kWidth = 100, kLeft = 30;

std::string row(const std::string& left, const std::string& right) {
  const std::string indent(kLeft, ' ');
  const std::string text = wrapped(right, kWidth - kLeft, indent);
  const std::string begin = "  " + left;
  if (begin.size() + 2 > kLeft) return begin + "\n" + indent + text + "\n";
  return fmt::format("{:<{}}{}\n", begin, kLeft, text);
}

std::string own_name(const CLI::App* command) {
  return (command->get_parent() != nullptr ? own_name(command->get_parent()) + " " : "") + command->get_name();
}

std::string names_of(const CLI::Option* option) {
  std::string names;
  for (const std::string& name : option->get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option->get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  return names;
}

std::string positional_name(const CLI::Option* option) {
  const std::string name = option->get_name(true, false), type = option->get_type_name();
  return type.empty() || type == "TEXT" ? name : type;
}

}  // namespace

std::string wrapped(const std::string& text, size_t width, const std::string& indent) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) out += "\n" + indent;
    size_t column = 0;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (column > 0 && column + 1 + word.size() > width) {
        out += "\n" + indent;
        column = 0;
      }
      if (column > 0) {
        out += ' ';
        ++column;
      }
      out += word;
      column += word.size();
    }
  }
  return out;
}

std::string HelpFormatter::make_usage(const CLI::App* command, std::string) const {
  std::string text = "\nUsage: " + own_name(command);
  if (!command->get_subcommands({}).empty()) return text + " COMMAND [ARGUMENTS]\n";
  for (const CLI::Option* option : command->get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = positional_name(option);
    const std::string more = option->get_items_expected_max() > 1 && !name.ends_with("...") ? "..." : "";
    const bool required = option->get_required() || option->get_option_text() == kShownAsRequired;
    text += required ? " " + name + more : " [" + name + more + "]";
  }
  for (const CLI::Option* option : command->get_options())
    if (option->get_required() && !option->get_positional())
      text += " " + option->get_name() + " " + option->get_type_name();
  text += " [OPTIONS]";
  if (command->get_prefix_command()) text += " -- COMMAND [ARGUMENTS]";
  if (command->get_allow_extras()) text += " [--SECTION.KEY=VALUE ...]";
  return text + "\n";
}

// Removes the second empty line left by hidden options.
std::string HelpFormatter::make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(command, std::move(name), mode);
  for (size_t at = 0; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string left = is_positional ? positional_name(option) : names_of(option);
  const bool takes_value = option->get_items_expected_max() > 0;
  if (!is_positional && takes_value) left += " " + option->get_type_name();
  std::string right = option->get_description();
  // An option that is also positional may be omitted in this form.
  if (!is_positional && option->get_required() && !option->get_positional()) right += " (required)";
  if (takes_value && !option->get_default_str().empty())
    right += fmt::format(" (default: {})", option->get_default_str());
  return row(left, right);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return row(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* command) const {
  return wrapped(command->get_description(), kWidth, "") + "\n";
}

}  // namespace partita::cli
