// Options that several text subcommands share: input files, their format, and lists of names as CLI11 checks them.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "partita/text/text_input.h"
#include "partita/tokenizer/prompt_text.h"

namespace partita::cli {
struct TextArguments {
  std::vector<std::string> inputs;
  TextInputOptions options;
  std::string separator;
  int64_t max_line = TextInputOptions{}.max_line_bytes >> 20;  // MiB
  int64_t max_document = TextInputOptions::kStreamedDocumentBytes >> 20;
};

// --input, --format, --json-keys, --document-separator, --invalid-utf8, --max-line, --max-document. `arguments`
// outlives the command.
void add_text_options(CLI::App& command, TextArguments& arguments);

// --allow-special and --add-special of commands that read prompts, both on unless --no-... `of_what` ends their help.
void add_prompt_options(CLI::App& command, PromptSpecials& specials, const std::string& of_what);

// What the options say, after parsing.
[[nodiscard]] TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments);

}  // namespace partita::cli
