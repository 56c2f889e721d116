// How the help of the commands is laid out: lines that fit a terminal of 100 columns, defaults and whether an option is
// required at the end of its description.
//
//   program.formatter(std::make_shared<HelpFormatter>());   // before commands are added: they take it over
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace partita::cli {
// The option_text() of a positional argument that hidden options can replace: the usage shows it as required.
inline constexpr const char* kShownAsRequired = "required";

class HelpFormatter : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* command, std::string name) const override;
  [[nodiscard]] std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode) const override;
  [[nodiscard]] std::string make_option(const CLI::Option* option, bool is_positional) const override;
  [[nodiscard]] std::string make_subcommand(const CLI::App* command) const override;
  [[nodiscard]] std::string make_description(const CLI::App* command) const override;
};

// `text` in lines of at most `width` characters, cut at spaces; a longer word is a line of its own. Line ends stay.
[[nodiscard]] std::string wrapped(const std::string& text, size_t width, const std::string& indent);

}  // namespace partita::cli
