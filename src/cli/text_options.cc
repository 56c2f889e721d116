#include "cli/text_options.h"

#include <fmt/format.h>

#include <map>

using partita::InvalidUtf8;
using partita::TextFormat;

namespace {

// CLI11 shows the names and takes no other.
template <class T>
void add_choice(CLI::App& command, const std::string& name, T& value, const std::map<std::string, T>& names,
                const std::string& help) {
  std::vector<std::string> shown;
  for (const auto& [key, choice] : names) shown.push_back(key);
  command
      .add_option_function<std::string>(
          name, [&value, names](const std::string& chosen) { value = names.at(chosen); }, help)
      ->check(CLI::IsMember(shown))
      ->type_name("NAME");
}

}  // namespace

void add_text_options(CLI::App& command, TextArguments& arguments) {
  command
      .add_option(
          "--input", arguments.inputs,
          "Input files, plain or compressed by gzip or zstd; patterns such as 'data/*.jsonl' too (quote them); -: "
          "standard input")
      ->required()
      ->type_name("FILE");
  add_choice<TextFormat>(
      command, "--format", arguments.options.format,
      {{"auto", TextFormat::automatic}, {"jsonl", TextFormat::json_lines}, {"text", TextFormat::text}},
      "jsonl: a JSON object a line; text: a file is one document; auto (default): jsonl for files "
      "named .jsonl, .json or .ndjson (also before .gz or .zst) and for standard input, else text");
  command.add_option("--json-keys", arguments.options.json_keys, "Keys of the JSON object that hold the text")
      ->type_name("KEY")
      ->capture_default_str();
  command
      .add_option("--document-separator", arguments.separator,
                  "In text files, a line equal to LINE ends a document; '' is an empty line. Without it a file is one "
                  "document")
      ->type_name("LINE")
      ->expected(1);
  add_choice<InvalidUtf8>(
      command, "--invalid-utf8", arguments.options.invalid_utf8,
      {{"error", InvalidUtf8::error}, {"replace", InvalidUtf8::replace}, {"keep", InvalidUtf8::keep}},
      "Bytes that are not UTF-8: error (default) makes the document a bad one; replace: U+FFFD in their place; keep: "
      "as "
      "they are");
}

partita::TextInputOptions text_options(const CLI::App& command, const TextArguments& arguments) {
  partita::TextInputOptions options = arguments.options;
  if (command.get_option("--document-separator")->count() > 0) options.separator = arguments.separator;
  return options;
}
