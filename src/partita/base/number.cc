#include "partita/base/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>

namespace partita::internal {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes thousands separators: "1,000,000", "1_000", "1 000", "1'000".
std::string without_separators(std::string_view text) {
  const size_t first = text.find_first_of(",_ '");
  if (first == std::string_view::npos || first == 0 || first > 3) return "";
  const char separator = text[first];
  std::string digits(text.substr(0, first));
  for (size_t at = first; at < text.size(); at += 4) {
    const std::string_view group = text.substr(at + 1, 3);
    if (text[at] != separator || group.size() != 3 || !std::ranges::all_of(group, is_digit)) return "";
    digits += group;
  }
  return std::ranges::all_of(digits, is_digit) ? digits : "";
}

}  // namespace

double plain_nan(double value) { return std::isnan(value) ? std::abs(value) : value; }

bool is_integer_text(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::string plain_integer(std::string_view text) {
  if (const std::string digits = without_separators(text); !digits.empty()) return digits;
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with("0x") || text.starts_with("0X")) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return "";
    return std::to_string(value);
  }
  double factor = 1;
  if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) != 0) {
    switch (text.back()) {
      case 'k':
      case 'K':
        factor = 1e3;
        break;
      case 'm':
      case 'M':
        factor = 1e6;
        break;
      case 'B':
      case 'G':
        factor = 1e9;
        break;
      default:
        return "";
    }
    text.remove_suffix(1);
  }
  const std::optional<double> value = parse_number<double>(text);
  constexpr double kExact = 9007199254740992.0;  // up to here every integer is exact in a double
  if (!value || !(std::abs(*value * factor) <= kExact)) return "";
  const double whole = std::round(*value * factor);
  if (std::abs(whole - *value * factor) > 1e-6) return "";
  return fmt::format("{}", static_cast<int64_t>(whole));
}

}  // namespace partita::internal
