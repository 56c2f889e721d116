// Options shared by several text subcommands: input files and their format.
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

// Adds --input, --format, --json-keys, --document-separator, --invalid-utf8, --max-line, --max-document. `arguments`
// must outlive the command.
void add_text_options(CLI::App& command, TextArguments& arguments);

// Adds --allow-special and --add-special for commands that read prompts; both default to on and can be disabled with
// --no-... `of_what` ends their help text.
void add_prompt_options(CLI::App& command, PromptSpecials& specials, const std::string& of_what);

// The resulting options, after parsing.
[[nodiscard]] TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments);

}  // namespace partita::cli
