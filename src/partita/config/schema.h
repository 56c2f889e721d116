// Configuration as a declared schema: each key is bound to a variable with its type, range and meaning, and from that
// come reading TOML, command-line overrides, errors that say what was expected, printing and help.
//
//   struct { int64_t steps = 100; double rate = 1e-3; } settings;
//   ConfigSchema schema;
//   schema.section("train", "the run")
//       .field("steps", settings.steps, at_least(1), "optimizer steps")
//       .field("rate", settings.rate, more_than(0), "learning rate");
//   ConfigSources sources;
//   schema.read_toml(read_file("a.toml"), "a.toml", &sources);     // [train] steps = 500
//   schema.read_overrides({"--train.rate=2e-3"}, &sources);
//   schema.to_toml(&sources);   // [train]
//                               // steps = 500     # a.toml:2
//                               // rate = 0.002    # command line
//
// The variables keep their values (the defaults) where nothing is said, and must outlive the schema.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace partita::internal {

// What numbers are allowed; both ends included unless open.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;

  [[nodiscard]] bool contains(double value) const;  // never NaN or infinity
  [[nodiscard]] std::string text() const;           // "at least 1 and less than 2"; empty: any
};
[[nodiscard]] constexpr Range any_number() { return {}; }
[[nodiscard]] constexpr Range at_least(double least) { return {.least = least}; }
[[nodiscard]] constexpr Range more_than(double least) { return {.least = least, .least_open = true}; }
[[nodiscard]] constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
[[nodiscard]] constexpr Range fraction() { return {.least = 0, .most = 1, .most_open = true}; }  // [0, 1)

// Where a key's value came from: "a.toml:12" or "command line"; a default is not listed.
using ConfigSources = std::map<std::string, std::string, std::less<>>;

// A variable of an enumeration whose enumerators are 0, 1, ... in the order of `names`.
struct ConfigChoice {
  std::vector<std::string> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

using ConfigList = std::vector<std::string>;

// The last part of a key as other systems have it, in lower case with underscores, and what to do instead: the end of
// the message about an unknown key.
struct ConfigAlias {
  std::string_view name, advice;
};

// A key that had another name: files and commands with the old one are still read.
struct ConfigRename {
  std::string_view before, now;  // "train.precision", "precision.compute"
};

// A value as it stands in a file or on the command line, before it meets its key's type.
using ConfigValue = std::variant<bool, int64_t, double, std::string, ConfigList>;

struct ConfigField {
  std::string key;  // "train.steps"
  std::string meaning;
  Range range;
  std::variant<bool*, int64_t*, double*, std::string*, std::filesystem::path*, ConfigList*, ConfigChoice> target;

  [[nodiscard]] std::string expected() const;  // "an integer of at least 1"
  [[nodiscard]] std::string value() const;     // as TOML
};

class ConfigSchema {
 public:
  // The fields that follow belong to this section.
  ConfigSchema& section(std::string name, std::string meaning);

  ConfigSchema& field(std::string name, bool& target, std::string meaning);
  ConfigSchema& field(std::string name, std::string& target, std::string meaning);
  ConfigSchema& field(std::string name, std::filesystem::path& target, std::string meaning);
  // In TOML an array of strings and numbers; on the command line, words: "--data.blend 0.7 a 0.3 b", or one argument of
  // them. Numbers are taken as text.
  ConfigSchema& field(std::string name, ConfigList& target, std::string meaning);
  ConfigSchema& field(std::string name, int64_t& target, Range range, std::string meaning);
  ConfigSchema& field(std::string name, double& target, Range range, std::string meaning);
  // A name "true" or "false" is also met by the TOML boolean.
  template <class Enum>
  requires std::is_enum_v<Enum> ConfigSchema& choice(std::string name, Enum& target, std::span<const char* const> names,
                                                     std::string meaning) {
    return add(std::move(name), std::move(meaning), {},
               ConfigChoice{{names.begin(), names.end()},
                            [&target] { return static_cast<size_t>(target); },
                            [&target](size_t index) { target = static_cast<Enum>(index); }});
  }

  template <class Enum>
  requires std::is_enum_v<Enum> ConfigSchema& choice(std::string name, Enum& target,
                                                     std::initializer_list<const char*> names, std::string meaning) {
    return choice(std::move(name), target, std::span(names.begin(), names.size()), std::move(meaning));
  }

  // Keys that had other names; `renames` outlives the schema.
  ConfigSchema& renamed(std::span<const ConfigRename> renames);
  // Names to know in messages; `aliases` outlives the schema.
  ConfigSchema& also_called(std::span<const ConfigAlias> aliases);
  // Lowers the highest value that a number may have; its field says the rest. Error: there is no such number.
  ConfigSchema& at_most(std::string_view key, double most);

  // Sets what the text says; `file` is for messages and sources. Error: not TOML, unknown section or key (names the
  // nearest), wrong type or range; each with file and line.
  void read_toml(std::string_view text, std::string_view file, ConfigSources* sources = nullptr);

  // Sets what arguments "--section.key=value", or "--section.key" "value", say; a boolean key alone means true, a list
  // takes all values that follow it. A value may be quoted as in TOML. Of a key given twice the last value counts.
  void read_overrides(std::span<const std::string> arguments, ConfigSources* sources = nullptr);

  // All keys as valid TOML; with sources, each line ends in where its value came from.
  [[nodiscard]] std::string to_toml(const ConfigSources* sources = nullptr) const;

  // All keys with type, present value (the default, before anything is read) and meaning.
  [[nodiscard]] std::string help() const;
  // The same as Markdown, a table per section, and the old names of keys.
  [[nodiscard]] std::string markdown() const;

  [[nodiscard]] std::span<const ConfigField> fields() const { return fields_; }

  // What was read under an old name: "a.toml:3: train.precision is now called precision.compute".
  [[nodiscard]] std::span<const std::string> notes() const { return notes_; }

 private:
  struct Section {
    std::string name, meaning;
    size_t begin;  // its first field
  };

  ConfigSchema& add(std::string name, std::string meaning, Range range, decltype(ConfigField::target) target);
  [[nodiscard]] const ConfigField& find(std::string_view key, std::string_view where);
  [[nodiscard]] std::string advice(std::string_view key) const;
  [[nodiscard]] size_t end_of(size_t section) const;

  std::vector<Section> sections_;
  std::vector<ConfigField> fields_;
  std::span<const ConfigAlias> aliases_;
  std::span<const ConfigRename> renames_;
  std::vector<std::string> notes_;
};

}  // namespace partita::internal
