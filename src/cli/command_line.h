// The words of a command line, checked against the commands and options that the program has before CLI11 takes them,
// so that what is wrong is named together with what was probably meant.
//
//   CLI::App program;                                  // with its commands
//   std::vector<std::string> words = arrange(program, {"generate", "runs/my", "--tokens=5", "--top_k", "40"});
//
//   partita: unknown command 'trian': did you mean 'train'?
//   partita: generate: unknown option '--top_k': did you mean '--top-k'?
//   partita: generate: --prompt needs a value, found the option --tokens
//   partita: eval needs --data PREFIX|FILE.jsonl: 'partita eval --help' describes it
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace partita::cli {
// The same command line in the form that CLI11 reads without surprises: a value is a word of its own ("--tokens=5"
// becomes "--tokens", "5", which may be empty), and "help COMMAND", "COMMAND ... --help" and "version" are the options
// that show these. Words after "--" are positional arguments; of a command that starts another one (launch), all words
// from the first positional argument on are that other command line, which is checked as well. Error (wrong usage): no
// command (lists them), an unknown command or option, a value missing or too much, an option given twice, a positional
// argument missing or too much.
[[nodiscard]] std::vector<std::string> arrange(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace partita::cli
