// Conversion of configuration values to the type of their key, and the errors when that fails. Used by schema.cc.
//
//   set(field, read_as(field, "12", "command line"), "command line");
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "partita/config/schema.h"

namespace partita::internal {

// Sets the field. Error, naming `where`: the value has another type or is out of range.
void set(const ConfigField& field, const ConfigValue& value, std::string_view where);

// Parses the text of an override for this field. Text that does not parse as the field's type stays a string, which
// set() rejects.
[[nodiscard]] ConfigValue read_as(const ConfigField& field, const std::string& text, std::string_view where);

// The same of the words of a list.
[[nodiscard]] ConfigValue read_list_as(const ConfigField& field, std::span<const std::string> words,
                                       std::string_view where);

// "WHERE: KEY = FOUND: expected an integer of at least 1HINT"
[[noreturn]] void wrong_value(const ConfigField& field, std::string_view where, std::string_view found,
                              std::string_view hint = "");

// "did you mean 'NAME'?"; if `name` is empty, where the valid names are listed.
[[nodiscard]] std::string did_you_mean(const std::string& name);

// A TOML basic string, always on one line.
[[nodiscard]] std::string toml_string(std::string_view text);

[[nodiscard]] std::string lower(std::string text);
[[nodiscard]] bool is_boolean_name(std::string_view name);  // "true" or "false"

}  // namespace partita::internal
