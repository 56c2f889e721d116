#include "partita/tokenizer/sentencepiece/precompiled_charsmap.h"

#include <cstring>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// A unit of darts-clone's double array. Bit 31 distinguishes leaves, which hold a value, from nodes, which hold the
// byte that leads to them, whether they have a leaf child, and the offset of their children.
constexpr uint32_t kLeaf = uint32_t{1} << 31;
bool is_leaf(uint32_t unit) { return (unit & kLeaf) != 0; }
uint32_t label(uint32_t unit) { return unit & (kLeaf | 0xFF); }
bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & ~kLeaf; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

constexpr int kMostRules = 32;

}  // namespace

PrecompiledCharsmap::PrecompiledCharsmap(std::string_view bytes, std::string_view origin) {
  if (bytes.empty()) return;
  uint32_t array_bytes = 0;
  if (bytes.size() <= sizeof(array_bytes)) fail("{}: more than {} bytes expected", origin, bytes.size());
  std::memcpy(&array_bytes, bytes.data(), sizeof(array_bytes));
  bytes.remove_prefix(sizeof(array_bytes));
  if (array_bytes >= bytes.size() || array_bytes < 1024 || array_bytes % 1024 != 0) {
    fail("{}: its double array has {} bytes: a multiple of 1024 below {} expected", origin, array_bytes, bytes.size());
  }
  units_.resize(array_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), array_bytes);
  replacements_ = bytes.substr(array_bytes);
  if (replacements_.back() != '\0') fail("{}: its replacements do not end with a null", origin);
  check(origin);
}

// Checks that every transition leads to a unit and every value into the replacements, so that longest() need not.
void PrecompiledCharsmap::check(std::string_view origin) const {
  const auto leads_out = [&](size_t at) { return ((at ^ offset(units_[at])) | 0xFF) >= units_.size(); };
  const uint32_t root = units_[0];
  if (label(root) != 0 || has_leaf(root) || offset(root) == 0 || leads_out(0)) {
    fail("{}: its double array has no root", origin);
  }
  for (size_t at = 1; at < units_.size(); ++at) {
    const uint32_t unit = units_[at];
    if (is_leaf(unit)) {
      if (value(unit) >= replacements_.size()) fail("{}: a value of its double array is out of range", origin);
    } else if (leads_out(at) || (has_leaf(unit) && !is_leaf(units_[at ^ offset(unit)]))) {
      fail("{}: its double array leads out of itself", origin);
    }
  }
}

std::optional<PrecompiledCharsmap::Rule> PrecompiledCharsmap::longest(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Rule> best;
  int found = 0;
  size_t at = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    const uint32_t unit = units_[at];
    if (label(unit) != byte) break;
    at ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (found++ == kMostRules) break;
    best = Rule{i + 1, std::string_view(replacements_.data() + value(units_[at]))};
  }
  return best;
}

bool PrecompiledCharsmap::may_begin_with(std::string_view bytes) const {
  if (units_.empty()) return false;
  size_t at = offset(units_[0]);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    at ^= byte;
    const uint32_t unit = units_[at];
    if (label(unit) != byte) return false;
    if (has_leaf(unit)) return true;
    at ^= offset(unit);
  }
  return true;
}

}  // namespace partita::internal
