// Patterns of names whose components are separated by points, as of modules and parameters.
//
//   matches_name("layers.*.attention", "layers.3.attention");      // true
//   matches_name("layers.*", "layers.3.attention");                // false: '*' ends at a point
//   matches_name("**.attention", "layers.3.attention");            // true
#pragma once
#include <string_view>

namespace partita::internal {

// '*' stands for any characters but a point, '**' for any characters; both also for none.
[[nodiscard]] bool matches_name(std::string_view pattern, std::string_view name);

}  // namespace partita::internal
