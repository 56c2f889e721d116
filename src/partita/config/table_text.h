// Tables of names with a value each, in TOML: [section.key] with lines "NAME" = "VALUE", or inline on one line.
//
//   table_text({{"layers.*.mlp", "replicate"}})                  // {"layers.*.mlp" = "replicate"}
//   read_table_text(field, "{\"embedding\" = \"replicate\"}", "command line")
#pragma once
#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "partita/config/schema.h"

namespace partita::internal {

// In the order in which the names are written. Errors, at `where`: a value that is no text, or not one that the field
// names.
[[nodiscard]] ConfigTable read_table(const ConfigField&, const toml::table&, std::string_view where);
// Of an inline table. Error: it is none.
[[nodiscard]] ConfigTable read_table_text(const ConfigField&, const std::string& text, std::string_view where);
[[nodiscard]] std::string table_text(const ConfigTable&);

}  // namespace partita::internal
