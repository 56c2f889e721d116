// A declared configuration schema: each key is bound to a variable with its type, range and meaning. TOML parsing,
// command-line overrides, error messages, printing and help all derive from it.
//
//   struct { int64_t steps = 100; double rate = 1e-3; } settings;
//   ConfigSchema schema;
//   schema.section("train", "the run")
//       .field("steps", settings.steps, at_least(1), "optimizer steps")
//       .field("rate", settings.rate, more_than(0), "learning rate");
//   ConfigSources sources;
//   schema.read_toml(read_file("a.toml"), "a.toml", &sources);     // [train] steps = 500
//   schema.read_overrides(std::vector<std::string>{"--train.rate=2e-3"}, &sources);
//   schema.to_toml(&sources);   // [train]
//                               // steps = 500     # a.toml:2
//                               // rate = 0.002    # command line
//
// Variables that are not set keep their values (the defaults). They must outlive the schema.
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
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "partita/base/enum_names.h"

namespace partita::internal {

// Range of allowed numbers; both ends are inclusive unless marked open.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool least_open = false, most_open = false;

  [[nodiscard]] bool contains(double value) const;  // false for NaN and infinity
  [[nodiscard]] std::string text() const;           // "at least 1 and less than 2"; empty: any
};
[[nodiscard]] constexpr Range any_number() { return {}; }
[[nodiscard]] constexpr Range at_least(double least) { return {.least = least}; }
[[nodiscard]] constexpr Range more_than(double least) { return {.least = least, .least_open = true}; }
[[nodiscard]] constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
[[nodiscard]] constexpr Range fraction() { return {.least = 0, .most = 1, .most_open = true}; }  // [0, 1)

// Where each value came from: "a.toml:12" or "command line". Defaults are not listed.
using ConfigSources = std::map<std::string, std::string, std::less<>>;

// An enum variable whose enumerators are 0, 1, ... in the order of `names`.
struct ConfigChoice {
  std::vector<std::string> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

using ConfigList = std::vector<std::string>;

// Names with a value each, in the order in which they are written.
using ConfigTable = std::vector<std::pair<std::string, std::string>>;

// A table whose values are among `values`.
struct ConfigTableTarget {
  ConfigTable* table;
  std::vector<std::string> values;
};

// The last component of a key in other systems, lower case with underscores, and the advice shown when it is used as an
// unknown key.
struct ConfigAlias {
  std::string_view name, advice;
};

// A renamed key: the old name is still accepted in files and on the command line.
struct ConfigRename {
  std::string_view before, now;  // "train.precision", "precision.compute"
  // Where true and false have become words: these; empty: values are as before.
  std::string_view yes = {}, no = {};
};

// A value as written in a file or on the command line, before conversion to its key's type.
using ConfigValue = std::variant<bool, int64_t, double, std::string, ConfigList, ConfigTable>;

struct ConfigField {
  std::string key;  // "train.steps"
  std::string meaning;
  Range range;
  std::variant<bool*, int64_t*, double*, std::string*, std::filesystem::path*, ConfigList*, ConfigTableTarget,
               ConfigChoice>
      target;

  [[nodiscard]] std::string expected() const;  // "an integer of at least 1"
  [[nodiscard]] std::string value() const;     // as TOML
};

class ConfigSchema {
 public:
  // The fields added after this call belong to the section.
  ConfigSchema& section(std::string name, std::string meaning);

  ConfigSchema& field(std::string name, bool& target, std::string meaning);
  ConfigSchema& field(std::string name, std::string& target, std::string meaning);
  ConfigSchema& field(std::string name, std::filesystem::path& target, std::string meaning);
  // TOML: an array of strings and numbers. Command line: the same, or items with commas or spaces between them, in one
  // word or in several (list_text.h). Numbers are kept as text.
  ConfigSchema& field(std::string name, ConfigList& target, std::string meaning);
  // TOML: a table [section.name], or an inline table, which is also what the command line takes.
  ConfigSchema& field(std::string name, ConfigTable& target, std::vector<std::string> values, std::string meaning);
  ConfigSchema& field(std::string name, int64_t& target, Range range, std::string meaning);
  ConfigSchema& field(std::string name, double& target, Range range, std::string meaning);
  // The names "true" and "false" also match TOML booleans.
  template <class Enum>
  requires std::is_enum_v<Enum> ConfigSchema& choice(std::string name, Enum& target, std::span<const char* const> names,
                                                     std::string meaning) {
    return add(std::move(name), std::move(meaning), {},
               ConfigChoice{{names.begin(), names.end()},
                            [&target] { return static_cast<size_t>(target); },
                            [&target](size_t index) { target = static_cast<Enum>(index); }});
  }
  // Only the first values of an enumeration.
  template <class Enum>
  requires std::is_enum_v<Enum> ConfigSchema& choice(std::string name, Enum& target,
                                                     std::initializer_list<const char*> names, std::string meaning) {
    return choice(std::move(name), target, std::span(names.begin(), names.size()), std::move(meaning));
  }
  template <NamedEnum Enum>
  ConfigSchema& choice(std::string name, Enum& target, std::string meaning) {
    return choice(std::move(name), target, std::span<const char* const>(EnumNames<Enum>::kNames), std::move(meaning));
  }

  // Accepts the old names of keys; `renames` must outlive the schema.
  ConfigSchema& renamed(std::span<const ConfigRename> renames);
  // Names for error messages; `aliases` must outlive the schema.
  ConfigSchema& also_called(std::span<const ConfigAlias> aliases);
  // Lowers the upper bound of a numeric key whose field declared the rest of the range. Error: no such numeric key.
  ConfigSchema& at_most(std::string_view key, double most);

  // Sets the values in `text`; `file` is for messages and sources. Errors, each with file and line: invalid TOML,
  // unknown section or key (with the nearest name), wrong type, out of range.
  void read_toml(std::string_view text, std::string_view file, ConfigSources* sources = nullptr);

  // Sets the values of arguments "--section.key=value" or "--section.key" "value". A boolean key alone means true; a
  // list takes all values up to the next key. A value may be quoted as in TOML. If a key is repeated, the last value
  // wins.
  void read_overrides(std::span<const std::string> arguments, ConfigSources* sources = nullptr);

  // All keys as valid TOML; with sources, each line ends with the origin of its value.
  [[nodiscard]] std::string to_toml(const ConfigSources* sources = nullptr) const;

  // All keys with type, current value (the default, before anything is read) and meaning.
  [[nodiscard]] std::string help() const;
  // The same as Markdown, one table per section, including renamed keys.
  [[nodiscard]] std::string markdown() const;

  [[nodiscard]] std::span<const ConfigField> fields() const { return fields_; }

  // One note per key read under its old name: "a.toml:3: train.precision is now called precision.compute".
  [[nodiscard]] std::span<const std::string> notes() const { return notes_; }

 private:
  struct Section {
    std::string name, meaning;
    size_t begin;  // index of its first field
  };

  ConfigSchema& add(std::string name, std::string meaning, Range range, decltype(ConfigField::target) target);
  [[nodiscard]] const ConfigField& find(std::string_view key, std::string_view where);
  // Whether the key was true or false under its old name, and is a word now.
  [[nodiscard]] bool was_a_flag(std::string_view key) const;
  // The value of a key as it is called now.
  [[nodiscard]] ConfigValue renamed_value(std::string_view key, ConfigValue value) const;
  [[nodiscard]] std::string advice(std::string_view key) const;
  [[nodiscard]] size_t end_of(size_t section) const;

  std::vector<Section> sections_;
  std::vector<ConfigField> fields_;
  std::span<const ConfigAlias> aliases_;
  std::span<const ConfigRename> renames_;
  std::vector<std::string> notes_;
};

}  // namespace partita::internal
