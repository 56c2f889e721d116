// Tables of names with a value each, in TOML: [section.key] with lines "NAME" = "VALUE", or inline on one line.
//
//   table_text({{"layers.*.mlp", "replicate"}})                  // {"layers.*.mlp" = "replicate"}
//   read_table_text(field, "{\"embedding\" = \"replicate\"}", "command line")
#pragma once
#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>

#include "partita/config/schema.h"

namespace partita::internal {

// Where a node was read, for messages: "a.toml:12", "command line".
using NodePlace = std::function<std::string(const toml::node&)>;

// In the order in which the names are written. Errors, each at its value's place: a value that is not a string, or not
// one that the field names.
[[nodiscard]] ConfigTable read_table(const ConfigField&, const toml::table&, const NodePlace&);
// Of an inline table, on one line. Error: it is none, with what TOML's parser says.
[[nodiscard]] ConfigTable read_table_text(const ConfigField&, const std::string& text, std::string_view where);
[[nodiscard]] std::string table_text(const ConfigTable&);

}  // namespace partita::internal
