#include "partita/base/name_pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace partita::internal {

// Time grows with the product of the two lengths, whatever the pattern: users write patterns, and one with many stars
// can be matched in very many ways.
bool matches_name(std::string_view pattern, std::string_view name) {
  std::vector<bool> reached(name.size() + 1);  // lengths of the prefixes of the name that the pattern so far matches
  reached[0] = true;
  while (!pattern.empty()) {
    const size_t stars = std::min(pattern.find_first_not_of('*'), pattern.size());
    if (stars > 0) {
      for (size_t i = 0; i < name.size(); ++i)
        if (reached[i] && (stars > 1 || name[i] != '.')) reached[i + 1] = true;
      pattern.remove_prefix(stars);
      continue;
    }
    for (size_t i = name.size(); i > 0; --i) reached[i] = reached[i - 1] && name[i - 1] == pattern.front();
    reached[0] = false;
    pattern.remove_prefix(1);
  }
  return reached[name.size()];
}

}  // namespace partita::internal
