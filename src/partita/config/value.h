// One value of a configuration and its key's type, for config.cc: how a value becomes a field's, or why it cannot.
//
//   set(field, read_as(field, "12", "command line"), "command line");
#pragma once
#include <string>
#include <string_view>

#include "partita/config/schema.h"

namespace partita::internal {

// Sets the field to the value. Error, which names `where`: the value has another type or is out of range.
void set(const ConfigField& field, const ConfigValue& value, std::string_view where);

// What the text of an override means to this field; text that its type does not know stays text, for set to refuse.
[[nodiscard]] ConfigValue read_as(const ConfigField& field, const std::string& text, std::string_view where);

// "WHERE: KEY = FOUND: expected an integer of at least 1HINT"
[[noreturn]] void wrong_value(const ConfigField& field, std::string_view where, std::string_view found,
                              std::string_view hint = "");

// "did you mean 'NAME'?"; of an empty name, where all names are listed.
[[nodiscard]] std::string did_you_mean(const std::string& name);

[[nodiscard]] std::string lower(std::string text);
[[nodiscard]] bool is_boolean_name(std::string_view name);  // "true" or "false"

}  // namespace partita::internal
