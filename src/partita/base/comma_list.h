// Comma-separated items, as in options and configurations.
//
//   comma_list("c_attn, c_proj")   // {"c_attn", "c_proj"}
#pragma once
#include <string_view>
#include <vector>

namespace partita::internal {

// Strips the spaces around each item. Empty items count: "" has one, "a," two. The views point into `text`.
[[nodiscard]] std::vector<std::string_view> comma_list(std::string_view text);

}  // namespace partita::internal
