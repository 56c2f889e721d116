#include "partita/base/name_pattern.h"

#include <cstddef>

namespace partita::internal {

bool matches_name(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && pattern.front() == name.front() && matches_name(pattern.substr(1), name.substr(1));
  const bool any = pattern.starts_with("**");
  const std::string_view rest = pattern.substr(any ? 2 : 1);
  for (size_t skipped = 0;; ++skipped) {
    if (matches_name(rest, name.substr(skipped))) return true;
    if (skipped == name.size() || (!any && name[skipped] == '.')) return false;
  }
}

}  // namespace partita::internal
