// TOML as a user wrote it.
//
//   const toml::table root = parse_toml(text, "a.toml");
//   for (const auto& [key, node] : in_written_order(*root["parallel"]["plan"].as_table())) ...
#pragma once
#include <toml++/toml.h>

#include <string_view>
#include <utility>
#include <vector>

namespace partita::internal {

// Errors, with file and line: text that is no TOML, with what was probably meant; tables and arrays that are nested too
// deep for the parser.
[[nodiscard]] toml::table parse_toml(std::string_view text, std::string_view file);

// toml::table sorts by name. The table must outlive the result.
[[nodiscard]] std::vector<std::pair<std::string_view, const toml::node*>> in_written_order(const toml::table&);

}  // namespace partita::internal
