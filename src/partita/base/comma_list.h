// Items with commas between them, as options and configurations have them.
//
//   comma_list("c_attn, c_proj")   // {"c_attn", "c_proj"}
#pragma once
#include <string_view>
#include <vector>

namespace partita::internal {

// Without the spaces around each. An empty item is one too: "" has one, "a," two. The views are into `text`.
[[nodiscard]] std::vector<std::string_view> comma_list(std::string_view text);

}  // namespace partita::internal
