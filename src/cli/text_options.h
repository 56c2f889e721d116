// Options that several text subcommands share: input files, their format, and lists of names as CLI11 checks them.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "partita/data/text_input.h"

struct TextArguments {
  std::vector<std::string> inputs;
  partita::TextInputOptions options;
  std::string separator;
};

// --input, --format, --json-keys, --document-separator, --invalid-utf8. `arguments` outlives the command.
void add_text_options(CLI::App& command, TextArguments& arguments);

// What the options say, after parsing.
[[nodiscard]] partita::TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments);
