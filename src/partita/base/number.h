// Numbers as people write them on a command line or in a configuration.
//
//   parse_number<int64_t>("12")    // 12
//   parse_number<int64_t>("1e3")   // none: an integer has digits only
//   plain_integer("1,000")         // "1000": what was probably meant
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace partita::internal {

// The number that the whole text is, in decimal notation; none if there is anything else in it, or if T has no such
// number. NaN and infinity are numbers for a floating-point T.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value, and every NaN without its sign, which means nothing: for texts, where it would be "-nan".
[[nodiscard]] double plain_nan(double value);

// Digits, with a minus or without: an integer, even if no type can hold it.
[[nodiscard]] bool is_integer_text(std::string_view text);

// The integer that a text of another notation means, with its digits alone: "1,000", "1_000", "1e3", "64.0", "4k",
// "2M", "0x10", "+5". Empty: none that is known.
[[nodiscard]] std::string plain_integer(std::string_view text);

}  // namespace partita::internal
