// Layout of the help text: lines fit a terminal of 100 columns; defaults and "required" are at the end of an option's
// description.
//
//   program.formatter(std::make_shared<HelpFormatter>());   // before adding commands, which inherit it
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace partita::cli {
// option_text() of a positional argument that hidden options can replace: the usage line shows it as required.
inline constexpr const char* kShownAsRequired = "required";

class HelpFormatter : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* command, std::string name) const override;
  [[nodiscard]] std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode) const override;
  [[nodiscard]] std::string make_option(const CLI::Option* option, bool is_positional) const override;
  [[nodiscard]] std::string make_subcommand(const CLI::App* command) const override;
  [[nodiscard]] std::string make_description(const CLI::App* command) const override;
};

// Wraps `text` at spaces into lines of at most `width` characters; a longer word gets its own line. Keeps line ends.
[[nodiscard]] std::string wrapped(const std::string& text, size_t width, const std::string& indent);

}  // namespace partita::cli
