#include "cli/text_options.h"

#include "cli/options.h"

using partita::InvalidUtf8;
using partita::TextFormat;

void add_text_options(CLI::App& command, TextArguments& arguments) {
  add_list(command, "--input", arguments.inputs, "FILE...",
           "Input files, plain or compressed by gzip or zstd; patterns such as 'data/*.jsonl' (quoted); -: standard input")
      ->required();
  add_choice<TextFormat>(
      command, "--format", arguments.options.format,
      {{"auto", TextFormat::automatic}, {"jsonl", TextFormat::json_lines}, {"text", TextFormat::text}},
      "jsonl: one JSON object per line; text: one document per file; auto: jsonl for standard input and for files named "
      ".jsonl, .json or .ndjson (also before .gz or .zst), else text");
  add_list(command, "--json-keys", arguments.options.json_keys, "KEY...", "Keys of the JSON object that hold the text");
  add_text(command, "--document-separator", arguments.separator, "LINE",
           "Text files: a line equal to LINE ends a document; '' is an empty line (default: one document per file)");
  add_choice<InvalidUtf8>(
      command, "--invalid-utf8", arguments.options.invalid_utf8,
      {{"error", InvalidUtf8::error}, {"replace", InvalidUtf8::replace}, {"keep", InvalidUtf8::keep}},
      "Bytes that are not UTF-8. error: the document counts as bad; replace: they become U+FFFD; keep: they stay");
}

partita::TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments) {
  partita::TextInputOptions options = arguments.options;
  if (command.get_option("--document-separator")->count() > 0) options.separator = arguments.separator;
  return options;
}
