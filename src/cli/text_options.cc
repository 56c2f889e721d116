#include "cli/text_options.h"

#include <fmt/format.h>

#include "cli/options.h"

namespace partita::cli {
using namespace internal;

void add_text_options(CLI::App& command, TextArguments& arguments) {
  add_list(
      command, "--input", arguments.inputs, "FILE...",
      "Input files, plain or compressed by gzip or zstd; patterns such as 'data/*.jsonl' (quoted); -: standard input")
      ->required();
  add_choice(
      command, "--format", arguments.options.format,
      "jsonl: one JSON object per line; text: one document per file; auto: jsonl for standard input and for files "
      "named "
      ".jsonl, .json or .ndjson (also before .gz or .zst), else text");
  add_list(command, "--json-keys", arguments.options.json_keys, "KEY...", "Keys of the JSON object that hold the text");
  add_text(command, "--document-separator", arguments.separator, "LINE",
           "Text files: a line equal to LINE ends a document; '' is an empty line (default: one document per file)");
  add_choice(
      command, "--invalid-utf8", arguments.options.invalid_utf8,
      "Bytes that are not UTF-8. error: the document counts as bad; replace: they become U+FFFD; keep: they stay");
  // Compressed documents may have any length, and memory is limited.
  constexpr double kMostOfALine = 4095, kMost = 1 << 20;  // the JSON parser requires less than 4 GiB
  add_number(command, "--max-line", arguments.max_line, between(1, kMostOfALine),
             "Longest line of JSON lines in MiB; longer ones are skipped and counted");
  add_number(
      command, "--max-document", arguments.max_document, between(1, kMost),
      "Longest document of text files in MiB; longer ones are skipped and counted. Without it: 1024 for compressed "
      "files and standard input, no limit for plain files");
}

void add_prompt_options(CLI::App& command, PromptSpecials& specials, const std::string& of_what) {
  command.add_flag("--allow-special,!--no-allow-special", specials.allow_special,
                   fmt::format("Read the name of a special token {}, such as <|im_start|>, as that token (default); "
                               "--no-allow-special: as text",
                               of_what));
  command.add_flag(
      "--add-special,!--no-add-special", specials.add_special,
      fmt::format("Put the tokens that the tokenizer's file puts in front of a text, such as <s>, in front "
                  "of each prompt {} (default)",
                  of_what));
}

TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments) {
  TextInputOptions options = arguments.options;
  options.max_line_bytes = arguments.max_line << 20;
  if (command.get_option("--max-document")->count() > 0) options.max_document_bytes = arguments.max_document << 20;
  if (command.get_option("--document-separator")->count() > 0) options.separator = arguments.separator;
  return options;
}

}  // namespace partita::cli
