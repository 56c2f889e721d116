#include "partita/checkpoint/checksum.h"

#include <charconv>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "partita/base/error.h"

namespace partita::internal {

uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string checksum_text(uint64_t sum) { return fmt::format("{:016x}", sum); }

uint64_t parse_checksum(std::string_view text) {
  uint64_t sum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    fail("'{}' is not a checksum: expected 16 hexadecimal digits", text);
  return sum;
}

}  // namespace partita::internal
