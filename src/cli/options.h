// Typed command options: parsing and error messages.
//
//   add_number(command, "--tokens", arguments.tokens, at_least(0), "Most tokens to generate");
//   add_choice(command, "--device", arguments.device, {"auto", "cpu", "cuda"}, "Device");
//
//   partita: --tokens must be at least 0, got -1
//   partita: --tokens must be an integer of at least 0, got '1e3': write 1000
//   partita: --device must be auto, cpu or cuda, got 'gpu'
//
// Targets must outlive the command. They hold the defaults, which the help shows.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/enum_names.h"
#include "partita/base/error.h"
#include "partita/base/number.h"
#include "partita/config/schema.h"

namespace partita::cli {
namespace detail {
// The long form in names such as "-n,--ranks": "--ranks".
[[nodiscard]] std::string long_name(const std::string& names);
// Converts a string of digits to double; the largest finite double if it overflows.
[[nodiscard]] double finite(std::string_view integer);
[[noreturn]] void wrong_number(std::string_view option, bool integer, const internal::Range&, std::string_view got);
[[noreturn]] void beyond_type(std::string_view option, const std::string& least, const std::string& most,
                              std::string_view got);
[[noreturn]] void empty_path(std::string_view option, std::string_view type);
// Calls `set` with the index of the chosen name.
CLI::Option* add_named(CLI::App& command, const std::string& name, const std::string& default_name,
                       const std::vector<std::string>& names, std::function<void(size_t)> set, const std::string& help);
}  // namespace detail

// Parses a number. Error (wrong usage): not a number, outside the range, or not representable in T.
template <class T>
[[nodiscard]] T read_number(std::string_view option, std::string_view text, const internal::Range& range) {
  const std::optional<T> value = internal::parse_number<T>(text);
  if (!value && std::integral<T> && internal::is_integer_text(text) && range.contains(detail::finite(text)))
    detail::beyond_type(option, fmt::format("{}", std::numeric_limits<T>::min()),
                        fmt::format("{}", std::numeric_limits<T>::max()), text);
  if (!value || !range.contains(static_cast<double>(*value)))
    detail::wrong_number(option, std::integral<T>, range, text);
  return *value;
}

// Adds an integer or floating-point option, depending on the target's type.
template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& target, internal::Range range,
                        const std::string& help) {
  CLI::callback_t read = [&target, range, shown = detail::long_name(name)](const CLI::results_t& values) {
    target = read_number<T>(shown, values.front(), range);
    return true;
  };
  return command.add_option(name, std::move(read), help)
      ->type_name(std::integral<T> ? "N" : "X")
      ->default_str(fmt::format("{}", target));
}

// Adds a text option. `Text` is a string, which may be empty, or a path, which may not: an empty one, mostly a shell
// variable that is not set, must not be taken for an option that was not given.
template <class Text>
CLI::Option* add_text(CLI::App& command, const std::string& name, Text& target, const std::string& type,
                      const std::string& help) {
  CLI::callback_t read = [&target, type, shown = detail::long_name(name)](const CLI::results_t& values) {
    if (std::same_as<Text, std::filesystem::path> && values.front().empty()) detail::empty_path(shown, type);
    target = values.front();
    return true;
  };
  return command.add_option(name, std::move(read), help)
      ->type_name(type)
      ->default_str(std::filesystem::path(target).string());
}

// Adds a repeatable text option: "--input a b --input c" gives three. Words are kept verbatim (CLI11 would split
// "[PAD]").
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                      const std::string& type, const std::string& help);

// Adds positional words: "plot a b". Also kept verbatim, using the two functions below.
CLI::Option* add_positional_list(CLI::App& command, const std::string& name, std::vector<std::string>& target,
                                 const std::string& type, const std::string& help);
// Escapes a word of a positional list for CLI11, which would split "[a,b]" and interpret "-x" and "++"; unsealed()
// reverses it. Used by arrange() (command_line.h). Pure.
[[nodiscard]] std::string sealed(const std::string& word);
[[nodiscard]] std::string unsealed(const std::string& word);

// Adds an option with the given choices; the default may be empty, which is not among them.
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& target,
                        const std::vector<std::string>& names, const std::string& help);

// Adds an option whose choices are the names of an enumeration; the first is the default.
template <NamedEnum Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Enum& target, const std::string& help) {
  const std::vector<std::string> names(EnumNames<Enum>::kNames.begin(), EnumNames<Enum>::kNames.end());
  return detail::add_named(
      command, name, names.front(), names, [&target](size_t chosen) { target = static_cast<Enum>(chosen); }, help);
}

}  // namespace partita::cli
