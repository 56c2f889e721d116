// Writes fields in protobuf's wire format, for tests.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace partita::internal {

inline std::string protobuf_number(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}
inline std::string protobuf_varint(uint32_t field, uint64_t value) {
  return protobuf_number(uint64_t{field} << 3) + protobuf_number(value);
}
inline std::string protobuf_bytes(uint32_t field, std::string_view bytes) {
  return protobuf_number((uint64_t{field} << 3) | 2) + protobuf_number(bytes.size()) + std::string(bytes);
}
inline std::string protobuf_float(uint32_t field, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  std::string out = protobuf_number((uint64_t{field} << 3) | 5);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift);
  return out;
}

}  // namespace partita::internal
