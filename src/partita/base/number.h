// Parses numbers from command lines and configurations.
//
//   parse_number<int64_t>("12")    // 12
//   parse_number<int64_t>("1e3")   // nullopt: an integer has digits only
//   plain_integer("1,000")         // "1000": what was probably meant
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace partita::internal {

// Parses the whole text as a decimal number; nullopt if anything else is in it or it is out of T's range. A
// floating-point T accepts NaN and infinity.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value, with the meaningless sign of a NaN removed, so that texts never show "-nan".
[[nodiscard]] double plain_nan(double value);

// Whether the text is an integer, digits with an optional minus, even if no type can hold it.
[[nodiscard]] bool is_integer_text(std::string_view text);

// The digits of an integer in another notation: "1,000", "1_000", "1e3", "64.0", "4k", "2M", "0x10", "+5". Empty: not
// recognized.
[[nodiscard]] std::string plain_integer(std::string_view text);

}  // namespace partita::internal
