#include "partita/base/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace partita::internal {
namespace {

// Ignores case and the difference between '-' and '_'.
std::string folded(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table suffice: a swap looks two rows back.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
  const std::string typed = folded(name);
  std::string best;
  size_t least = 0;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(typed, folded(candidate));
    if (2 * distance > std::max(name.size(), candidate.size())) continue;
    if (best.empty() || distance < least) best = candidate, least = distance;
  }
  if (!best.empty() || typed.size() < 3) return best;
  size_t found = 0;
  for (const std::string& candidate : known)
    if (folded(candidate).starts_with(typed)) best = candidate, ++found;
  return found == 1 ? best : "";
}

}  // namespace partita::internal
