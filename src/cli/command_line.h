// Checks the words of a command line against the program's commands and options before CLI11 parses them, so that error
// messages can suggest what was probably meant.
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
// Rewrites the command line into a form that CLI11 parses without surprises: values become separate words ("--tokens=5"
// becomes "--tokens", "5"; values may be empty), and "help COMMAND", "COMMAND ... --help" and "version" become the
// corresponding options. Words after "--" are positional arguments. For a command that starts another one (launch), all
// words from the first positional argument on form the other command line, which is checked too. Error (wrong usage):
// no command (lists them), an unknown command or option, a missing or superfluous value, a repeated option, a missing
// or superfluous positional argument.
// A program of the user's in place of a command, as launch takes it, is not checked.
[[nodiscard]] std::vector<std::string> arrange(const CLI::App& program, const std::vector<std::string>& words);

// Whether a word is a program of the user's, by its path, rather than a command.
[[nodiscard]] inline bool names_program(const std::string& word) { return word.find('/') != std::string::npos; }

}  // namespace partita::cli
