#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cli/options.h"
#include "partita/base/error.h"
#include "partita/base/nearest.h"

namespace partita::cli {
using namespace internal;

namespace {

using Words = std::span<const std::string>;

// Names of other systems for our commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kOtherNames = {{{"pretrain", "train"},
                                                                                        {"finetune", "train"},
                                                                                        {"fine-tune", "train"},
                                                                                        {"resume", "train"},
                                                                                        {"fit", "train"},
                                                                                        {"run", "launch"},
                                                                                        {"torchrun", "launch"},
                                                                                        {"evaluate", "eval"},
                                                                                        {"validate", "eval"},
                                                                                        {"sample", "generate"},
                                                                                        {"infer", "generate"},
                                                                                        {"chat", "generate"},
                                                                                        {"preprocess", "tokenize"},
                                                                                        {"encode", "tokenize"},
                                                                                        {"convert", "export"},
                                                                                        {"benchmark", "bench"}}};

// "partita tokenizer train"
std::string full_name(const CLI::App& command) {
  return (command.get_parent() != nullptr ? full_name(*command.get_parent()) + " " : "") + command.get_name();
}

// Prefix of error messages: "tokenizer train: ", or empty for the program itself.
std::string prefix(const CLI::App& command) {
  return command.get_parent() == nullptr ? "" : full_name(command).substr(full_name(command).find(' ') + 1) + ": ";
}

std::string see_help(const CLI::App& command) {
  return "'" + full_name(command) + " --help' describes " + (command.get_parent() == nullptr ? "the program" : "it");
}

std::vector<const CLI::App*> subcommands(const CLI::App& command) { return command.get_subcommands({}); }

const CLI::App* find_command(const CLI::App& parent, std::string_view name) {
  for (const CLI::App* command : subcommands(parent))
    if (command->get_name() == name) return command;
  return nullptr;
}

// Message for a missing command: the available commands with their descriptions, and how to learn more.
std::string command_list(const CLI::App& parent) {
  const std::string name = full_name(parent);
  size_t width = 0;
  for (const CLI::App* command : subcommands(parent)) width = std::max(width, command->get_name().size());
  std::string text = fmt::format("{}a command is missing\n\nUsage: {} COMMAND [ARGUMENTS]\n\n", prefix(parent), name);
  for (const CLI::App* command : subcommands(parent))
    text += fmt::format("  {:<{}}  {}\n", command->get_name(), width, command->get_description());
  return text + fmt::format("\n'{} COMMAND --help' describes a command.", name);
}

[[noreturn]] void unknown_command(const CLI::App& parent, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands(parent)) names.push_back(command->get_name());
  std::string near = nearest(word, names);
  if (parent.get_parent() == nullptr)
    for (const auto& [other, ours] : kOtherNames)
      if (word == other) near = ours;
  throw UsageError(fmt::format(
      "{}unknown command '{}': {}", prefix(parent), word,
      near.empty() ? fmt::format("expected one of {}", fmt::join(names, ", ")) : "did you mean '" + near + "'?"));
}

bool is_help(std::string_view word) { return word == "-h" || word == "--help"; }
// "-5" and "-.5" are values, and "-" is standard input.
bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}
bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }
bool is_list(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

// Parses the options and positional arguments of one command.
class Arguments {
 public:
  Arguments(const CLI::App& program, const CLI::App& command, Words words)
      : program_(program), command_(command), words_(words) {}

  std::vector<std::string> arrange() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_];
      if (word == "--") {
        ++at_;
        if (command_.get_prefix_command()) return with_other_command();
        while (at_ < words_.size()) positional(words_[at_++], true);
      } else if (is_help(word)) {
        return {"--help"};
      } else if (word.starts_with("--")) {
        ++at_;
        long_option(word);
      } else if (is_option(word)) {
        ++at_;
        short_option(word);
      } else if (command_.get_prefix_command()) {
        return with_other_command();
      } else {
        positional(words_[at_++], false);
      }
    }
    check_required();
    if (!after_mark_.empty()) out_.emplace_back("--");
    out_.insert(out_.end(), after_mark_.begin(), after_mark_.end());
    return std::move(out_);
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    throw UsageError(prefix(command_) + fmt::format(format, std::forward<Args>(args)...));
  }

  std::vector<std::string> with_other_command() {
    check_required();
    const Words rest = words_.subspan(at_);
    if (rest.empty()) return std::move(out_);  // the command itself reports what is missing
    if (rest[0] == command_.get_name()) wrong("it cannot start itself: name the command that each rank runs");
    if (!names_program(rest[0])) (void)cli::arrange(program_, {rest.begin(), rest.end()});
    out_.insert(out_.end(), rest.begin(), rest.end());
    return std::move(out_);
  }

  void long_option(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const CLI::Option* option = find([&](const CLI::Option* o) { return o->check_lname(name); });
    if (option == nullptr) {
      other_option(word, name);
    } else if (equals == std::string::npos) {
      take(*option, "--" + name, nullptr);
    } else {
      const std::string value = word.substr(equals + 1);
      take(*option, "--" + name, &value);
    }
  }

  void short_option(const std::string& word) {
    const std::string name = word.substr(1, 1);
    const CLI::Option* option = find([&](const CLI::Option* o) { return o->check_sname(name); });
    if (option == nullptr) unknown_option(word, word.substr(1));
    std::string value = word.substr(2);
    if (value.starts_with('=')) value.erase(0, 1);
    take(*option, "-" + name, word.size() > 2 ? &value : nullptr);
  }

  // A word that is not an option of the command: a configuration key, if the command takes those.
  void other_option(const std::string& word, const std::string& name) {
    if (!command_.get_allow_extras()) unknown_option(word.substr(0, word.find('=')), name);
    for (const std::string& known : option_names())
      if (edit_distance(name, known) <= 2) unknown_option(word.substr(0, word.find('=')), name);
    if (positionals_ == 0 && required_positionals() > 0 && word.find('=') == std::string::npos && at_ < words_.size() &&
        !is_option(words_[at_]))
      wrong("{} comes before {}: write the settings after it, or {}={}", first_positional(), word, word, words_[at_]);
    out_.push_back(word);
  }

  [[noreturn]] void unknown_option(const std::string& shown, const std::string& name) const {
    const std::vector<std::string> names = option_names();
    std::string near = nearest(name, names);
    if (near.empty() && name.size() == 1) {  // "-i": suggest the long names that begin with this letter
      std::vector<std::string> begins;
      std::ranges::copy_if(names, std::back_inserter(begins), [&](const auto& n) { return n.starts_with(name); });
      if (!begins.empty()) near = fmt::format("{}", fmt::join(begins, "' or '--"));
    }
    wrong("unknown option '{}': {}", shown, near.empty() ? see_help(command_) : "did you mean '--" + near + "'?");
  }

  // The value is the rest of the word, or the following word.
  void take(const CLI::Option& option, const std::string& name, const std::string* value) {
    const int64_t before = given_[&option]++;
    if (is_flag(option)) {
      if (value != nullptr && *value != "true" && *value != "false")
        wrong("{} takes no value, or true or false, got '{}'", name, *value);
      if (value == nullptr || *value == "true")
        out_.push_back(name);
      else if (name.starts_with("--"))
        out_.push_back(name + "=false");  // for flags that default to on
      return;
    }
    if (before > 0 && !is_list(option)) wrong("{} is given twice: give it once", name);
    if (value == nullptr) {
      if (at_ == words_.size()) wrong("{0} needs a value: {0} {1}", name, option.get_type_name());
      if (names_an_option(words_[at_]))
        wrong("{} needs a value ({}), found the option {}; if that is the value, write {}={}", name,
              option.get_type_name(), words_[at_], name, words_[at_]);
      value = &words_[at_++];
    }
    push(name, *value);
    // A list ends at the next option, and leaves the last words for positional arguments that are still missing.
    while (is_list(option) && at_ < words_.size() && !is_option(words_[at_]) &&
           words_.size() - at_ > missing_positionals())
      push(name, words_[at_++]);
  }

  void push(const std::string& name, const std::string& value) {
    out_.push_back(name);
    out_.push_back(value);
  }

  void positional(const std::string& word, bool after_mark) {
    ++positionals_;
    size_t single = 0, room = 0;  // number of single-word positionals, which come first; total including lists
    for (const CLI::Option* o : options()) {
      if (!o->get_positional() || given_[o] > 0) continue;
      single += is_list(*o) ? 0 : 1;
      room += is_list(*o) ? words_.size() : 1;
    }
    const bool settings = command_.get_allow_extras();
    // For commands with settings, CLI11 passes "--" itself through; "++" ends a command everywhere.
    if ((positionals_ > room && (!settings || after_mark)) ||
        (settings && (word == "++" || (after_mark && is_option(word)))))
      wrong("unexpected argument '{}': {}", word, see_help(command_));
    const bool of_list = room > single && positionals_ > single;
    if (of_list)  // keeps the order: after the mark once a word needs it, else before it
      (after_mark_.empty() ? out_ : after_mark_).push_back(sealed(word));
    else
      (!settings && (after_mark || word == "++") ? after_mark_ : out_).push_back(word);
  }

  void check_required() const {
    std::vector<std::string> missing;
    size_t positionals = positionals_;
    for (const CLI::Option* o : options()) {
      if (!o->get_required() || given(o) > 0) continue;
      if (o->get_positional() && positionals > 0) {
        --positionals;
        continue;
      }
      missing.push_back(o->get_positional() ? shown_positional(*o) : o->get_name() + " " + o->get_type_name());
    }
    if (!missing.empty())
      throw UsageError(fmt::format("{} needs {}: {}", prefix(command_).substr(0, prefix(command_).size() - 2),
                                   fmt::join(missing, " and "), see_help(command_)));
  }

  [[nodiscard]] static std::string shown_positional(const CLI::Option& o) {
    const std::string name = o.get_name(true, false), type = o.get_type_name();
    return type.empty() || type == "TEXT" ? name : type;
  }
  [[nodiscard]] std::string first_positional() const {
    for (const CLI::Option* o : options())
      if (o->get_positional()) return shown_positional(*o);
    return "";
  }
  [[nodiscard]] size_t required_positionals() const {
    return static_cast<size_t>(std::ranges::count_if(
        options(), [&](const CLI::Option* o) { return o->get_positional() && o->get_required() && given(o) == 0; }));
  }
  [[nodiscard]] size_t missing_positionals() const {
    return required_positionals() - std::min(positionals_, required_positionals());
  }
  [[nodiscard]] int64_t given(const CLI::Option* option) const {
    const auto found = given_.find(option);
    return found == given_.end() ? 0 : found->second;
  }

  [[nodiscard]] std::vector<const CLI::Option*> options() const { return command_.get_options(); }
  template <class Matches>
  [[nodiscard]] const CLI::Option* find(Matches matches) const {
    for (const CLI::Option* option : options())
      if (matches(option)) return option;
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const CLI::Option* o : options()) names.insert(names.end(), o->get_lnames().begin(), o->get_lnames().end());
    return names;
  }
  [[nodiscard]] bool names_an_option(const std::string& word) const {
    if (word == "--" || is_help(word)) return true;
    const std::string name = word.substr(0, word.find('='));
    return word.starts_with("--") && find([&](const CLI::Option* o) { return o->check_lname(name.substr(2)); });
  }

  const CLI::App& program_;
  const CLI::App& command_;
  Words words_;
  size_t at_ = 0, positionals_ = 0;
  std::map<const CLI::Option*, int64_t> given_;
  std::vector<std::string> out_, after_mark_;
};

}  // namespace

std::vector<std::string> arrange(const CLI::App& program, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  const CLI::App* command = &program;
  bool help = false;
  size_t at = 0;
  while (!subcommands(*command).empty()) {
    if (at == words.size()) {
      if (help) break;
      throw UsageError(command_list(*command));
    }
    const std::string& word = words[at++];
    if (is_help(word) || (word == "help" && !help)) {
      help = true;
      if (word != "help") break;
      continue;
    }
    if (command == &program && (word == "--version" || word == "version")) return {"--version"};
    const CLI::App* named = find_command(*command, word);
    if (named == nullptr && word.starts_with('-'))
      throw UsageError(
          fmt::format("{}unknown option '{}' in place of a command: {}", prefix(*command), word, see_help(*command)));
    if (named == nullptr) unknown_command(*command, word);
    command = named;
    out.push_back(word);
  }
  if (help) {
    out.emplace_back("--help");
    return out;
  }
  const std::vector<std::string> arguments = Arguments(program, *command, Words(words).subspan(at)).arrange();
  out.insert(out.end(), arguments.begin(), arguments.end());
  return out;
}

}  // namespace partita::cli
